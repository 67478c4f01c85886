//! The properties of an architecture, and the interface of its address translation.

use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PhysAddr, VirtAddr};

#[cfg(feature = "stacks")]
use super::stacks::Stacks;
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

/// The properties of an architecture.
pub struct Architecture {
    /// Name, as printed by `uname -m`.
    pub name: &'static str,
    /// `e_machine` of its ELF cores.
    pub elf_machine: u16,
    /// Creates a translator from VMCOREINFO.
    pub translator: MakeTranslator,
    /// SECTION_SIZE_BITS and MAX_PHYSMEM_BITS of kernels whose VMCOREINFO lacks them (before
    /// commit 4f5aecdff25f, 5.8).
    pub section_bits: fn(&Vmcoreinfo) -> (i64, i64),
    /// Its stacks; `None` if they cannot be unwound.
    #[cfg(feature = "stacks")]
    pub stacks: Option<&'static dyn Stacks>,
}

/// Creates a translator for one kernel.
pub type MakeTranslator =
    fn(&Vmcoreinfo, &PhysicalMemory) -> Result<Box<dyn Translator>, KernelError>;

/// The physical location of a virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The physical address.
    pub physical: PhysAddr,
    /// Number of bytes from there on that are mapped contiguously.
    pub len: u64,
}

/// A page table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Name of the table's level: PGD, P4D, PUD, PMD or PTE.
    pub level: &'static str,
    /// Physical address of the entry.
    pub address: PhysAddr,
    /// Value of the entry.
    pub value: u64,
}

/// Translates kernel virtual addresses.
pub trait Translator: Send + Sync {
    /// Translates `address`; returns `None` if it is not mapped.
    fn translate(
        &self,
        memory: &PhysicalMemory,
        address: VirtAddr,
    ) -> Result<Option<Leaf>, SourceError>;

    /// Translates `address` and passes each page table entry on the way to `visit`, from the
    /// top.
    fn walk(
        &self,
        memory: &PhysicalMemory,
        address: VirtAddr,
        _visit: &mut dyn FnMut(TableEntry),
    ) -> Result<Option<Leaf>, SourceError> {
        self.translate(memory, address)
    }
}
