//! Registers of CPUs, of interrupted code and of sleeping tasks.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, StackReader};

/// Number of words of struct pt_regs up to the status (arch/riscv/include/asm/ptrace.h).
const WORDS: usize = 33;
/// SR_SPP: the interrupted code was not a user program (arch/riscv/include/asm/csr.h).
const SUPERVISOR: u64 = 1 << 8;

/// The registers that unwinding needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Program counter.
    pub pc: u64,
    /// x1, the return address.
    pub ra: u64,
    /// x2, the stack pointer.
    pub sp: u64,
    /// x8, the frame pointer.
    pub fp: u64,
    /// Where the kernel was interrupted from; `None` for the registers of a note, which do not
    /// tell.
    pub status: Option<u64>,
}

impl Registers {
    /// Parses a struct user_regs_struct, with which struct pt_regs begins too.
    pub fn parse(bytes: &[u8], endian: Endian) -> Option<Self> {
        let at = |index: usize| endian.u64(bytes, 8 * index);
        Some(Self {
            pc: at(0)?,
            ra: at(1)?,
            sp: at(2)?,
            fp: at(8)?,
            status: None,
        })
    }

    /// Reads a struct pt_regs.
    pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Self, Reason> {
        let mut bytes = [0; 8 * WORDS];
        kernel.read("the registers on a stack", at, &mut bytes)?;
        let found = Self::parse(&bytes, kernel.endian()).unwrap_or_default();
        let status = kernel.endian().u64(&bytes, 8 * (WORDS - 1));
        Ok(Self { status, ..found })
    }

    /// Returns true for user mode. Addresses of the kernel are in the upper half.
    pub fn is_user(&self) -> bool {
        match self.status {
            Some(status) => status & SUPERVISOR == 0,
            None => self.pc >> 63 == 0,
        }
    }
}

/// Returns the registers with which a sleeping task continues, as __switch_to saved them.
pub fn of_sleeper(kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
    let value = |path| kernel.value(task, "task_struct", path);
    // thread.s[0] is the frame pointer.
    let saved = kernel.member("task_struct", "thread.s")?;
    let at = task.0.wrapping_add(saved.offset);
    let ra = value("thread.ra")?;
    Ok(Registers {
        pc: ra,
        ra,
        sp: value("thread.sp")?,
        fp: kernel.word(at)?,
        status: None,
    })
}
