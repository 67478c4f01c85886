//! Registers of CPUs and of interrupted code.

use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, StackReader};

/// Number of words of struct pt_regs up to `result` (arch/powerpc/include/asm/ptrace.h).
const WORDS: usize = 44;
/// MSR_PR: a user program (arch/powerpc/include/asm/reg.h).
const USER: u64 = 1 << 14;
/// Exception vectors: multiples of 16 or 32 from the system reset to the hypervisor's, with
/// flags in the lowest bits (arch/powerpc/include/asm/interrupt.h).
const TRAPS: std::ops::RangeInclusive<u64> = 0x100..=0x3fff;

/// The registers that unwinding needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub nip: u64,
    /// r1, the stack pointer.
    pub r1: u64,
    /// Machine state, with the mode.
    pub msr: u64,
    /// Link register: the return address.
    pub link: u64,
    /// The exception that saved the registers.
    pub trap: u64,
}

impl Registers {
    /// Parses a struct pt_regs.
    pub fn parse(bytes: &[u8], endian: Endian) -> Option<Self> {
        let at = |index: usize| endian.u64(bytes, 8 * index);
        Some(Self {
            nip: at(32)?,
            r1: at(1)?,
            msr: at(33)?,
            link: at(36)?,
            trap: at(40)?,
        })
    }

    /// Reads a struct pt_regs.
    pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Self, Reason> {
        let mut bytes = [0; 8 * WORDS];
        kernel.read("the registers on a stack", at, &mut bytes)?;
        Ok(Self::parse(&bytes, kernel.endian()).unwrap_or_default())
    }

    /// Returns true for user mode.
    pub fn is_user(&self) -> bool {
        self.msr & USER != 0
    }

    /// Returns true for the registers with which a kernel thread begins: they are 0.
    pub fn is_beginning(&self) -> bool {
        self.nip == 0
    }

    /// Returns true if an exception may have saved them.
    pub fn is_plausible(&self) -> bool {
        self.is_beginning() || TRAPS.contains(&self.trap)
    }
}
