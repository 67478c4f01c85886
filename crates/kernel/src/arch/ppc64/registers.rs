//! Registers of CPUs and of interrupted code.

use bigiron_format::bytes::Endian;

use super::super::stacks::{Registers, StackReader};

/// Number of words of struct pt_regs up to `result` (arch/powerpc/include/asm/ptrace.h).
const WORDS: usize = 44;
/// Index of the word with the exception that saved the registers.
const TRAP: usize = 40;
/// MSR_PR: a user program (arch/powerpc/include/asm/reg.h).
const USER: u64 = 1 << 14;
/// Exception vectors: multiples of 16 or 32 from the system reset to the hypervisor's, with
/// flags in the lowest bits (arch/powerpc/include/asm/interrupt.h).
const TRAPS: std::ops::RangeInclusive<u64> = 0x100..=0x3fff;

/// Parses a struct pt_regs.
pub fn parse(bytes: &[u8], endian: Endian) -> Option<Registers> {
    let at = |index: usize| endian.u64(bytes, 8 * index);
    Some(Registers {
        ip: at(32)?,
        sp: at(1)?,
        fp: 0,
        link: at(36)?,
        is_user: at(33)? & USER != 0,
    })
}

/// Returns the registers that an exception, or the start of a kernel thread, saved at `at`.
/// `None` if they cannot be.
pub fn saved(kernel: &dyn StackReader, at: u64) -> Option<Registers> {
    let mut bytes = [0; 8 * WORDS];
    kernel
        .read("the registers on a stack", at, &mut bytes)
        .ok()?;
    let registers = parse(&bytes, kernel.endian())?;
    let trap = kernel.endian().u64(&bytes, 8 * TRAP)?;
    (registers.ip == 0 || TRAPS.contains(&trap)).then_some(registers)
}
