//! Registers of CPUs and of interrupted code.

use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, Registers, StackReader};

/// Offset of the program status word in struct pt_regs (arch/s390/include/asm/ptrace.h); in
/// struct s390_regs, which a note has, it comes first.
const PSW: u64 = 8;
/// Size of the program status word and the general registers.
pub const SIZE: usize = 18 * 8;
/// Size of struct pt_regs up to the general registers.
pub const PT_REGS: u64 = PSW + SIZE as u64;
/// PSW_MASK_PSTATE: a user program.
const USER: u64 = 1 << 48;

/// Parses a struct s390_regs.
pub fn parse(bytes: &[u8], endian: Endian) -> Option<Registers> {
    let at = |index: usize| endian.u64(bytes, 8 * index);
    Some(Registers {
        ip: at(1)?,
        sp: at(17)?,
        fp: 0,
        link: at(16)?,
        is_user: at(0)? & USER != 0,
    })
}

/// Reads a struct pt_regs.
pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Registers, Reason> {
    let mut bytes = [0; SIZE];
    let at = at.wrapping_add(PSW);
    kernel.read("the registers on a stack", at, &mut bytes)?;
    Ok(parse(&bytes, kernel.endian()).unwrap_or_default())
}
