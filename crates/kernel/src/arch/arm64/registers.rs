//! Registers of CPUs, of interrupted code and of sleeping tasks.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, Registers, StackReader};

/// Size of struct user_pt_regs, with which pt_regs begins (arch/arm64/include/asm/ptrace.h).
const USER_PT_REGS: usize = 34 * 8;
/// PSR_MODE_MASK and PSR_MODE_EL0t (arch/arm64/include/uapi/asm/ptrace.h); the mode of 32-bit
/// programs has the same low bits.
const MODE: u64 = 0xf;
const USER: u64 = 0;

/// Parses a struct user_pt_regs.
pub fn parse(bytes: &[u8], endian: Endian) -> Option<Registers> {
    let at = |index: usize| endian.u64(bytes, 8 * index);
    Some(Registers {
        fp: at(29)?,
        link: at(30)?,
        sp: at(31)?,
        ip: at(32)?,
        is_user: at(33)? & MODE == USER,
    })
}

/// Reads a struct pt_regs.
pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Registers, Reason> {
    let mut bytes = [0; USER_PT_REGS];
    kernel.read("the registers on a stack", at, &mut bytes)?;
    Ok(parse(&bytes, kernel.endian()).unwrap_or_default())
}

/// Returns the registers with which a sleeping task continues, as cpu_switch_to saved them.
pub fn of_sleeper(kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
    let value = |path| kernel.value(task, "task_struct", path);
    Ok(Registers {
        fp: value("thread.cpu_context.fp")?,
        sp: value("thread.cpu_context.sp")?,
        ip: value("thread.cpu_context.pc")?,
        ..Registers::default()
    })
}
