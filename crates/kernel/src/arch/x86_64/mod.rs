//! x86-64: page tables of four or five levels.
//!
//! Intel SDM volume 3, "Paging"; names as in arch/x86/include/asm/pgtable_types.h.

#[cfg(feature = "stacks")]
pub mod orc;
#[cfg(feature = "stacks")]
mod registers;
#[cfg(feature = "stacks")]
mod unwind;

use bigiron_format::bytes::Endian;
use bigiron_format::elf::MACHINE_X86_64;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PhysAddr, VirtAddr};

use super::architecture::Architecture;
use super::entries::{Entries, level_name};
use super::table_tree::{TableTree, Target};
use super::translator::{Leaf, Translator};
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "x86_64",
    aliases: &[],
    byte_orders: &[(Endian::Little, "x86_64")],
    page_shifts: &[12],
    physical_bits: 52,
    kernel_start: 1 << 63,
    elf_machine: MACHINE_X86_64,
    prstatus_size: 336,
    translator,
    section_bits,
    phys_base,
    image_area: Some((START_KERNEL_MAP, START_KERNEL_MAP + IMAGE_BYTES - 1)),
    modules,
    byte_order: None,
    vmcoreinfo: None,
    #[cfg(feature = "stacks")]
    stacks: Some(&unwind::X86_64),
};

/// Base address of the kernel image mapping (__START_KERNEL_map,
/// arch/x86/include/asm/page_64_types.h).
const START_KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
/// Size of that mapping (KERNEL_IMAGE_SIZE, arch/x86/include/asm/page_64_types.h). It is half of
/// that without CONFIG_RANDOMIZE_BASE, and modules begin there.
const IMAGE_BYTES: u64 = 1 << 30;
/// _PAGE_PRESENT.
const PRESENT: u64 = 1;
/// _PAGE_PSE: the entry maps a large page.
const LARGE: u64 = 1 << 7;
/// Address bits of an entry.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

struct PageTables {
    root: u64,
    levels: u32,
    /// Address bits used by memory encryption (sme_me_mask).
    encryption: u64,
}

/// arch/x86/include/asm/sparsemem.h.
fn section_bits(info: &Vmcoreinfo) -> (i64, i64) {
    (27, if has_five_levels(info) { 52 } else { 46 })
}

fn phys_base(info: &Vmcoreinfo) -> u64 {
    info.number("phys_base").unwrap_or(0).cast_unsigned()
}

/// Modules follow the mapping of the kernel image (MODULES_VADDR,
/// arch/x86/include/asm/pgtable_64_types.h).
fn modules(_: &Vmcoreinfo) -> Option<(u64, u64)> {
    Some((START_KERNEL_MAP + IMAGE_BYTES, u64::MAX))
}

fn has_five_levels(info: &Vmcoreinfo) -> bool {
    info.number("pgtable_l5_enabled") == Some(1)
}

fn translator(
    info: &Vmcoreinfo,
    memory: &PhysicalMemory,
) -> Result<Box<dyn Translator>, KernelError> {
    let root = info
        .symbol("swapper_pg_dir")
        .ok_or_else(|| KernelError::missing("SYMBOL(swapper_pg_dir)", "translate addresses"))?;
    // phys_base is exported since 4.10 (commit 401721ecd1dc); for older kernels the
    // /proc/vmcore segment that maps the kernel image gives it.
    let root = match info.number("phys_base") {
        Some(base) => root
            .0
            .wrapping_sub(START_KERNEL_MAP)
            .wrapping_add(base.cast_unsigned()),
        None => memory
            .source()
            .segment_address(root)
            .unwrap_or(root.0.wrapping_sub(START_KERNEL_MAP)),
    };
    Ok(Box::new(PageTables {
        root: root & ADDRESS,
        levels: if has_five_levels(info) { 5 } else { 4 },
        encryption: info.number("sme_mask").unwrap_or(0).cast_unsigned(),
    }))
}

/// Returns the translator of four levels of page tables with their root at `root`.
pub fn tables(root: PhysAddr) -> Box<dyn Translator> {
    Box::new(PageTables {
        root: root.0 & ADDRESS,
        levels: 4,
        encryption: 0,
    })
}

/// Returns the translator of the page tables that a CPU used, by its CR3.
#[cfg(feature = "images")]
pub fn of_cpu(info: &Vmcoreinfo, cr3: u64) -> impl Translator {
    PageTables {
        root: cr3 & ADDRESS,
        levels: if has_five_levels(info) { 5 } else { 4 },
        encryption: info.number("sme_mask").unwrap_or(0).cast_unsigned(),
    }
}

impl Translator for PageTables {
    fn walk(&self, entries: &mut Entries, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        // A canonical address sign-extends the highest bit that the tables translate.
        let unused = 64 - (12 + 9 * self.levels);
        if (address.0 << unused).cast_signed() >> unused != address.0.cast_signed() {
            return Ok(None);
        }
        let mut table = self.root;
        for level in (0..self.levels).rev() {
            let shift = 12 + 9 * level;
            let index = address.0 >> shift & 0x1ff;
            let name = level_name(level, self.levels);
            let entry = entries.read(name, table + index * 8, Endian::Little)?;
            match self.target(level, entry) {
                Target::Nothing => return Ok(None),
                Target::Memory { at, size } => {
                    let at = entries.of_machine(at);
                    return Ok(at.map(|at| Leaf::within(address.0, at, size)));
                }
                Target::Table { at, .. } => match entries.of_machine(at) {
                    Some(at) => table = at,
                    None => return Ok(None),
                },
            }
        }
        Ok(None)
    }

    fn tree(&self) -> Option<TableTree> {
        let levels = (0..self.levels).map(|level| (12 + 9 * level, 9));
        // The kernel's half of the addresses.
        let start = !0 << (11 + 9 * self.levels);
        Some(TableTree::new(self.root, start, levels, Endian::Little))
    }

    fn process_tree(&self, root: u64) -> Option<TableTree> {
        // The other half of the top table is the kernel's.
        const ENTRIES: u64 = 256;
        Some(self.tree()?.of_process(root, ENTRIES))
    }

    fn target(&self, level: u32, entry: u64) -> Target {
        let entry = entry & !self.encryption;
        if entry & PRESENT == 0 {
            return Target::Nothing;
        }
        if level == 0 || (level <= 2 && entry & LARGE != 0) {
            let size = 1 << (12 + 9 * level);
            return Target::memory(entry & ADDRESS, size);
        }
        Target::table(entry & ADDRESS)
    }
}
