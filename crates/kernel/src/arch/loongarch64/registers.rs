//! Registers of CPUs, of interrupted code and of sleeping tasks.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, Registers, StackReader};

/// Number of words of struct pt_regs up to csr_prmd (arch/loongarch/include/asm/ptrace.h).
const WORDS: usize = 37;
/// csr_era, the address of the instruction, in struct pt_regs and struct user_pt_regs.
const ERA: usize = 33;
/// PLV_MASK of csr_prmd: the privilege level of the interrupted code, 0 for the kernel
/// (arch/loongarch/include/asm/loongarch.h).
const LEVEL: u64 = 3;

/// Parses a struct user_pt_regs, with which struct pt_regs begins too. A note does not tell the
/// mode: addresses of the kernel are in the upper half.
pub fn parse(bytes: &[u8], endian: Endian) -> Option<Registers> {
    let at = |index: usize| endian.u64(bytes, 8 * index);
    let era = at(ERA)?;
    Some(Registers {
        ip: era,
        link: at(1)?,
        sp: at(3)?,
        fp: 0,
        is_user: era >> 63 == 0,
    })
}

/// Reads a struct pt_regs. It is blank where a task or CPU begins.
pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Registers, Reason> {
    let mut bytes = [0; 8 * WORDS];
    kernel.read("the registers on a stack", at, &mut bytes)?;
    let mode = kernel.endian().u64(&bytes, 8 * (WORDS - 1)).unwrap_or(0);
    Ok(Registers {
        is_user: mode & LEVEL != 0,
        ..parse(&bytes, kernel.endian()).unwrap_or_default()
    })
}

/// Returns the registers with which a sleeping task continues, as __switch_to saved them
/// (arch/loongarch/kernel/switch.S).
pub fn of_sleeper(kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
    let value = |path| kernel.value(task, "task_struct", path);
    Ok(Registers {
        ip: value("thread.reg01")?,
        sp: value("thread.reg03")?,
        ..Registers::default()
    })
}
