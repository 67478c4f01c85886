//! Registers of CPUs and of interrupted code.

use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, StackReader};

/// Offset of the program status word in struct pt_regs (arch/s390/include/asm/ptrace.h); in
/// struct s390_regs, which a note has, it comes first.
const PSW: u64 = 8;
/// Size of the program status word and the general registers.
pub const SIZE: usize = 18 * 8;
/// Size of struct pt_regs up to the general registers.
pub const PT_REGS: u64 = PSW + SIZE as u64;
/// PSW_MASK_PSTATE: a user program.
const USER: u64 = 1 << 48;

/// The registers that unwinding needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Program status word: mode and instruction address.
    pub psw: (u64, u64),
    /// The return address.
    pub r14: u64,
    /// The stack pointer.
    pub r15: u64,
}

impl Registers {
    /// Parses a struct s390_regs.
    pub fn parse(bytes: &[u8], endian: Endian) -> Option<Self> {
        let at = |index: usize| endian.u64(bytes, 8 * index);
        Some(Self {
            psw: (at(0)?, at(1)?),
            r14: at(16)?,
            r15: at(17)?,
        })
    }

    /// Reads a struct pt_regs.
    pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Self, Reason> {
        let mut bytes = [0; SIZE];
        let at = at.wrapping_add(PSW);
        kernel.read("the registers on a stack", at, &mut bytes)?;
        Ok(Self::parse(&bytes, kernel.endian()).unwrap_or_default())
    }

    /// Returns true for user mode.
    pub fn is_user(&self) -> bool {
        self.psw.0 & USER != 0
    }
}
