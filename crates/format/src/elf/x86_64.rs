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

/// Names of all registers, in the order of their indices.
pub const REGISTER_NAMES: [&str; 27] = [
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi",
    "rdi", "orig_rax", "rip", "cs", "rflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs",
    "gs",
];

/// The registers of a CPU; those that are not known are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers([u64; REGISTER_NAMES.len()]);

impl Registers {
    /// Reads the registers of an NT_PRSTATUS note; `None` if it is too short.
    pub fn of_prstatus(desc: &[u8]) -> Option<Self> {
        let mut values = [0; REGISTER_NAMES.len()];
        for (index, value) in values.iter_mut().enumerate() {
            *value = Endian::Little.u64(desc, PR_REG + 8 * index)?;
        }
        Some(Self(values))
    }

    /// Returns a register.
    pub fn get(&self, register: Register) -> u64 {
        self.0[register as usize]
    }

    /// Returns all registers with their names.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REGISTER_NAMES.into_iter().zip(self.0)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Notes;

    #[test]
    fn registers_are_read_from_the_note_that_has_them() {
        let mut registers = Registers::default();
        registers.set(Register::R15, 1);
        registers.set(Register::Rsp, 2);
        registers.set(Register::Gs, 3);
        let bytes = registers.note();
        let note = Notes::new(&bytes, Endian::Little, 0).intact().next();
        let desc = note.unwrap().desc;
        assert_eq!(Registers::of_prstatus(desc), Some(registers));
        assert_eq!(Registers::of_prstatus(&desc[..200]), None);
        let named: Vec<_> = registers.all().filter(|(_, value)| *value != 0).collect();
        assert_eq!(named, [("r15", 1), ("rsp", 2), ("gs", 3)]);
    }
}
