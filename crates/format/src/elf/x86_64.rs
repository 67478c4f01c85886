//! The registers of an x86-64 CPU as a note, for dumps that have them in another form.

use super::note::{self, NT_PRSTATUS};
use crate::bytes::Endian;

/// Size of struct elf_prstatus, and offset of pr_reg in it (include/linux/elfcore.h).
const PRSTATUS_SIZE: usize = 336;
const PR_REG: usize = 112;
/// Code segments of the kernel and of programs (arch/x86/include/asm/segment.h).
const KERNEL_CS: u64 = 0x10;
const USER_CS: u64 = 0x33;

/// A register, as its index in struct user_regs_struct (arch/x86/include/asm/user_64.h).
#[expect(missing_docs, reason = "the names are those of the processor")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    R15,
    R14,
    R13,
    R12,
    Rbp,
    Rbx,
    R11,
    R10,
    R9,
    R8,
    Rax,
    Rcx,
    Rdx,
    Rsi,
    Rdi,
    OrigRax,
    Rip,
    Cs,
    Rflags,
    Rsp,
    Ss,
    FsBase,
    GsBase,
    Ds,
    Es,
    Fs,
    Gs,
}

/// The registers of a CPU; those that are not known are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers([u64; 27]);

impl Registers {
    /// Sets a register.
    pub fn set(&mut self, register: Register, value: u64) {
        self.0[register as usize] = value;
    }

    /// Sets the code segment of a CPU of which only the address of its code is known: that of the
    /// kernel, or that of programs.
    pub fn guess_code_segment(&mut self) {
        let is_kernel = self.0[Register::Rip as usize] >> 63 == 1;
        self.set(Register::Cs, if is_kernel { KERNEL_CS } else { USER_CS });
    }

    /// Sets the code segment of a CPU that runs the kernel.
    pub fn set_kernel_mode(&mut self) {
        self.set(Register::Cs, KERNEL_CS);
    }

    /// Returns the NT_PRSTATUS note.
    pub fn note(&self) -> Vec<u8> {
        let mut desc = vec![0; PRSTATUS_SIZE];
        for (index, value) in self.0.iter().enumerate() {
            let at = PR_REG + 8 * index;
            desc[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        note::encode(b"CORE", NT_PRSTATUS, &desc, Endian::Little)
    }
}
