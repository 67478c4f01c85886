//! The properties of an architecture.

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

#[cfg(feature = "stacks")]
use super::stacks::Stacks;
use super::translator::Translator;
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

/// The properties of an architecture. Code outside of its folder knows nothing else about it.
pub struct Architecture {
    /// Name for messages, as printed by `uname -m` where the first byte order is in use.
    pub name: &'static str,
    /// Other names of the machine in headers, whatever their case.
    pub aliases: &'static [&'static str],
    /// The byte orders of its kernels, with the name that `uname -m` prints in each. The first is
    /// the usual one.
    pub byte_orders: &'static [(Endian, &'static str)],
    /// log2 of the page sizes of its kernels. The first is the usual one.
    pub page_shifts: &'static [u32],
    /// Number of bits of a physical address.
    pub physical_bits: u32,
    /// Lowest virtual address of a kernel. A lower one in a program header is not one: QEMU
    /// writes the physical address or 0 there.
    pub kernel_start: u64,
    /// `e_machine` of its ELF cores.
    pub elf_machine: u16,
    /// Size of the descriptor of NT_PRSTATUS, in bytes (struct elf_prstatus).
    pub prstatus_size: usize,
    /// Creates a translator from VMCOREINFO.
    pub translator: MakeTranslator,
    /// SECTION_SIZE_BITS and MAX_PHYSMEM_BITS of kernels whose VMCOREINFO lacks them (before
    /// commit 4f5aecdff25f, 5.8). The second may be too high.
    pub section_bits: fn(&Vmcoreinfo) -> (i64, i64),
    /// The value of phys_base in the sub-header of a kdump-compressed dump, where makedumpfile
    /// writes one for this architecture, else 0.
    pub phys_base: fn(&Vmcoreinfo) -> u64,
    /// The first and the last virtual address at which the kernel image is mapped; `None` if it
    /// depends on the kernel.
    pub image_area: Option<(u64, u64)>,
    /// The first and the last virtual address of modules; `None` if they are in vmalloc's area, or
    /// VMCOREINFO does not tell.
    pub modules: fn(&Vmcoreinfo) -> Option<(u64, u64)>,
    /// Determines the byte order of a kernel where it can differ from that of the file's headers.
    pub byte_order: Option<DetermineByteOrder>,
    /// Follows the architecture's own pointer to VMCOREINFO in memory, if it has one.
    pub vmcoreinfo: Option<FindVmcoreinfo>,
    /// Its stacks; `None` if they cannot be unwound.
    #[cfg(feature = "stacks")]
    pub stacks: Option<&'static dyn Stacks>,
}

/// Creates a translator for one kernel.
pub type MakeTranslator =
    fn(&Vmcoreinfo, &PhysicalMemory) -> Result<Box<dyn Translator>, KernelError>;

/// Returns the byte order of the kernel that VMCOREINFO is about; `None` if memory does not tell.
pub type DetermineByteOrder = fn(&Vmcoreinfo, &PhysicalMemory) -> Option<Endian>;

/// Returns the text of VMCOREINFO; `None` if memory has no valid pointer to one.
pub type FindVmcoreinfo = fn(&PhysicalMemory) -> Result<Option<Vec<u8>>, SourceError>;

impl Architecture {
    /// The name that `uname -m` prints with kernels of this byte order.
    pub fn machine(&self, endian: Endian) -> &'static str {
        let mut orders = self.byte_orders.iter();
        let found = orders.find(|(order, _)| *order == endian);
        found.map_or(self.name, |(_, name)| name)
    }

    /// Returns the byte order of the file's headers if kernels have it, else the usual one.
    pub fn usual_byte_order(&self, header: Endian) -> Endian {
        let mut orders = self.byte_orders.iter().map(|(order, _)| *order);
        let usual = orders.clone().next().unwrap_or(header);
        orders.find(|order| *order == header).unwrap_or(usual)
    }

    /// log2 of the usual page size.
    pub fn usual_page_shift(&self) -> u32 {
        self.page_shifts.first().copied().unwrap_or(12)
    }

    /// Returns true if `name` names the machine.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.byte_orders.iter().any(|(_, known)| *known == name)
            || self
                .aliases
                .iter()
                .any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

/// The addresses of modules where VMCOREINFO has them.
pub(super) fn noted_modules(info: &Vmcoreinfo) -> Option<(u64, u64)> {
    let number = |name| info.number(name).map(i64::cast_unsigned);
    let (start, end) = (number("MODULES_VADDR")?, number("MODULES_END")?);
    Some((start, end.checked_sub(1)?))
}

/// phys_base of architectures that have none.
pub(super) fn no_phys_base(_: &Vmcoreinfo) -> u64 {
    0
}
