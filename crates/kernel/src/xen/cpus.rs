//! The registers that the hypervisor saved of each physical CPU when it stopped
//! (kexec_crash_save_cpu, xen/common/kexec.c).

use bigiron_format::elf::x86_64::{Register, Registers};
use bigiron_format::elf::{NT_PRSTATUS, xen};

use super::host::Host;

/// Size of a CPU's stack, which is aligned (STACK_SIZE, xen/arch/x86/include/asm/config.h).
pub(super) const STACK: u64 = 8 * 4096;
/// The lowest address of the upper half, which the hypervisor and kernels have.
pub(super) const UPPER_HALF: u64 = 0xffff_8000_0000_0000;
/// Names of the control registers, in the order of their note.
pub const CONTROL_REGISTERS: [&str; 4] = ["cr0", "cr2", "cr3", "cr4"];

/// The registers of a physical CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number: CPUs have notes in the order of their numbers.
    pub number: usize,
    /// The registers.
    pub registers: Registers,
    /// Its control registers, named [`CONTROL_REGISTERS`]; `None` without a note.
    pub control: Option<[u64; CONTROL_REGISTERS.len()]>,
}

impl Cpu {
    /// Returns true if it saved its registers; the note of one that did not stop is empty.
    pub fn is_saved(&self) -> bool {
        self.registers.get(Register::Rip) != 0
    }

    /// The address behind its stack.
    pub(super) fn stack_end(&self) -> u64 {
        end_of_stack(self.registers.get(Register::Rsp))
    }
}

/// Returns the address behind the stack that an address is in.
pub(super) fn end_of_stack(address: u64) -> u64 {
    (address / STACK * STACK).saturating_add(STACK)
}

impl Host<'_> {
    /// Returns the CPUs that have a note.
    pub fn cpus(&self) -> Vec<Cpu> {
        let notes = self.memory().source().notes();
        let mut control = xen::control_registers(notes.clone());
        let statuses = notes
            .intact()
            .filter(|note| note.name == b"CORE" && note.n_type == NT_PRSTATUS);
        let cpus = statuses.enumerate().map(|(number, note)| Cpu {
            number,
            registers: Registers::of_prstatus(note.desc).unwrap_or_default(),
            control: control.next(),
        });
        cpus.collect()
    }
}
