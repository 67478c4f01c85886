//! Registers of CPUs, of interrupted code and of sleeping tasks.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, StackReader};

/// Size of struct user_pt_regs, with which pt_regs begins (arch/arm64/include/asm/ptrace.h).
const USER_PT_REGS: usize = 34 * 8;
/// PSR_MODE_MASK, PSR_MODE32_BIT and PSR_MODE_EL0t (arch/arm64/include/uapi/asm/ptrace.h).
const MODE: u64 = 0xf;
const USER: u64 = 0;

/// The registers that unwinding needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// x29, the frame pointer.
    pub fp: u64,
    /// x30, the return address.
    pub lr: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Program counter.
    pub pc: u64,
    /// Processor state, with the exception level.
    pub pstate: u64,
}

impl Registers {
    /// Parses a struct user_pt_regs.
    pub fn parse(bytes: &[u8], endian: Endian) -> Option<Self> {
        let at = |index: usize| endian.u64(bytes, 8 * index);
        Some(Self {
            fp: at(29)?,
            lr: at(30)?,
            sp: at(31)?,
            pc: at(32)?,
            pstate: at(33)?,
        })
    }

    /// Reads a struct pt_regs.
    pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Self, Reason> {
        let mut bytes = [0; USER_PT_REGS];
        kernel.read("the registers on a stack", at, &mut bytes)?;
        Ok(Self::parse(&bytes, kernel.endian()).unwrap_or_default())
    }

    /// Returns true for user mode, that of 32-bit programs too.
    pub fn is_user(&self) -> bool {
        self.pstate & MODE == USER
    }
}

/// Returns the registers with which a sleeping task continues, as cpu_switch_to saved them.
pub fn of_sleeper(kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
    let value = |path| kernel.value(task, "task_struct", path);
    Ok(Registers {
        fp: value("thread.cpu_context.fp")?,
        sp: value("thread.cpu_context.sp")?,
        pc: value("thread.cpu_context.pc")?,
        ..Registers::default()
    })
}
