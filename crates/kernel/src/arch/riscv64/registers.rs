//! Registers of CPUs, of interrupted code and of sleeping tasks.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, Registers, StackReader};

/// Number of words of struct pt_regs up to the status (arch/riscv/include/asm/ptrace.h).
const WORDS: usize = 33;
/// SR_SPP: the interrupted code was not a user program (arch/riscv/include/asm/csr.h).
const SUPERVISOR: u64 = 1 << 8;

/// Parses a struct user_regs_struct, with which struct pt_regs begins too. A note does not tell
/// the mode: addresses of the kernel are in the upper half.
pub fn parse(bytes: &[u8], endian: Endian) -> Option<Registers> {
    let at = |index: usize| endian.u64(bytes, 8 * index);
    let pc = at(0)?;
    Some(Registers {
        ip: pc,
        link: at(1)?,
        sp: at(2)?,
        fp: at(8)?,
        is_user: pc >> 63 == 0,
    })
}

/// Reads a struct pt_regs.
pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Registers, Reason> {
    let mut bytes = [0; 8 * WORDS];
    kernel.read("the registers on a stack", at, &mut bytes)?;
    let status = kernel.endian().u64(&bytes, 8 * (WORDS - 1)).unwrap_or(0);
    Ok(Registers {
        is_user: status & SUPERVISOR == 0,
        ..parse(&bytes, kernel.endian()).unwrap_or_default()
    })
}

/// Returns the registers with which a sleeping task continues, as __switch_to saved them.
pub fn of_sleeper(kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
    let value = |path| kernel.value(task, "task_struct", path);
    // thread.s[0] is the frame pointer.
    let saved = kernel.member("task_struct", "thread.s")?;
    let at = task.0.wrapping_add(saved.offset);
    let ra = value("thread.ra")?;
    Ok(Registers {
        ip: ra,
        sp: value("thread.sp")?,
        fp: kernel.word(at)?,
        ..Registers::default()
    })
}
