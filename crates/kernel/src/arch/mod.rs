//! Address translation, one module an architecture, chosen from a table.

mod x86_64;

use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PhysAddr, VirtAddr};

use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

/// What differs between architectures.
pub struct Architecture {
    /// As `uname -m` says it.
    pub name: &'static str,
    /// e_machine of its ELF cores.
    pub elf_machine: u16,
    /// Makes a translator out of what the kernel says of itself.
    pub translator: MakeTranslator,
    /// SECTION_SIZE_BITS and MAX_PHYSMEM_BITS of kernels that do not say them
    /// (before commit 4f5aecdff25f, 5.8).
    pub section_bits: fn(&Vmcoreinfo) -> (i64, i64),
}

/// Makes a translator for one kernel.
pub type MakeTranslator =
    fn(&Vmcoreinfo, &PhysicalMemory) -> Result<Box<dyn Translator>, KernelError>;

/// Where a virtual address is in physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The physical address.
    pub physical: PhysAddr,
    /// For how many bytes from there on the mapping goes straight on.
    pub len: u64,
}

/// An entry of a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// The name of the table's level: PGD, P4D, PUD, PMD or PTE.
    pub level: &'static str,
    /// Where the entry is.
    pub address: PhysAddr,
    /// What it holds.
    pub value: u64,
}

/// Translates the kernel's virtual addresses.
pub trait Translator: Send + Sync {
    /// Where `address` is; `None` if nothing is mapped there.
    fn translate(
        &self,
        memory: &PhysicalMemory,
        address: VirtAddr,
    ) -> Result<Option<Leaf>, SourceError>;

    /// The same, and shows `visit` each entry on the way, from the top.
    fn walk(
        &self,
        memory: &PhysicalMemory,
        address: VirtAddr,
        _visit: &mut dyn FnMut(TableEntry),
    ) -> Result<Option<Leaf>, SourceError> {
        self.translate(memory, address)
    }
}

/// The known architectures.
pub static ARCHITECTURES: &[Architecture] = &[x86_64::ARCHITECTURE];

/// The architecture of that name.
pub fn find(name: &str) -> Result<&'static Architecture, KernelError> {
    let found = ARCHITECTURES
        .iter()
        .find(|architecture| architecture.name == name);
    found.ok_or_else(|| KernelError::UnknownArchitecture(name.into()))
}

/// The architecture of ELF cores with that e_machine.
pub fn find_elf(machine: u16) -> Option<&'static Architecture> {
    ARCHITECTURES
        .iter()
        .find(|architecture| architecture.elf_machine == machine)
}

/// The names of the known ones, for messages.
pub fn names() -> String {
    ARCHITECTURES
        .iter()
        .map(|architecture| architecture.name)
        .collect::<Vec<_>>()
        .join(", ")
}
