//! loongarch64: windows that map memory directly, and page tables of two to four levels for
//! vmalloc, modules and struct pages.
//!
//! LoongArch Reference Manual, volume 1, "Memory Management";
//! arch/loongarch/include/asm/pgtable.h and addrspace.h. VMCOREINFO has nothing of the
//! architecture's own.

#[cfg(feature = "stacks")]
mod frame;
#[cfg(feature = "stacks")]
mod registers;
#[cfg(feature = "stacks")]
mod unwind;
mod windows;

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::architecture::{Architecture, no_phys_base, noted_modules};
use super::entries::{Entries, level_name};
use super::table_tree::{TableTree, Target};
use super::translator::{Leaf, Translator};
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

use windows::{ADDRESS, WINDOW_BITS, in_window};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "loongarch64",
    aliases: &[],
    byte_orders: &[(Endian::Little, "loongarch64")],
    page_shifts: &[14, 12, 16],
    physical_bits: WINDOW_BITS,
    kernel_start: 1 << 63,
    // EM_LOONGARCH.
    elf_machine: 258,
    prstatus_size: 480,
    translator,
    section_bits,
    phys_base: no_phys_base,
    image_area: None,
    modules: noted_modules,
    byte_order: None,
    vmcoreinfo: None,
    #[cfg(feature = "stacks")]
    stacks: Some(&unwind::LoongArch64),
};

/// _PAGE_VALID and _PAGE_PRESENT.
const VALID: u64 = 1 | 1 << 7;
/// _PAGE_HUGE, in a directory entry.
const HUGE: u64 = 1 << 6;
/// Maximum number of levels.
const MAX_LEVELS: u32 = 4;

struct PageTables {
    root: u64,
    page_shift: u32,
    levels: u32,
}

/// arch/loongarch/include/asm/sparsemem.h.
fn section_bits(_: &Vmcoreinfo) -> (i64, i64) {
    (29, 48)
}

fn translator(
    info: &Vmcoreinfo,
    memory: &PhysicalMemory,
) -> Result<Box<dyn Translator>, KernelError> {
    let needed = |key: &str| KernelError::missing(key, "translate addresses");
    let symbol = info
        .symbol("swapper_pg_dir")
        .ok_or_else(|| needed("SYMBOL(swapper_pg_dir)"))?;
    let page_shift = info.page_shift().ok_or_else(|| needed("PAGESIZE"))?;
    let root = in_window(symbol.0).ok_or_else(|| KernelError::Implausible {
        what: "SYMBOL(swapper_pg_dir)".into(),
        found: symbol.to_string(),
        expected: "an address in a window that maps memory directly",
    })?;
    Ok(Box::new(PageTables {
        root,
        page_shift,
        levels: count_levels(root, page_shift, memory)?,
    }))
}

/// Counts the levels of tables. The first entry of each directory leads to a table in a window,
/// also if nothing is mapped there: then to one without valid entries (invalid_pmd_table,
/// invalid_pte_table).
fn count_levels(root: u64, page_shift: u32, memory: &PhysicalMemory) -> Result<u32, SourceError> {
    let mut entries = Entries::new(memory);
    let usual = if page_shift == 16 { 2 } else { 3 };
    let (mut table, mut levels) = (root, 1);
    while levels < MAX_LEVELS {
        let entry = entries.read("", table, Endian::Little)?;
        match in_window(entry) {
            Some(next) if next & ((1 << page_shift) - 1) == 0 => table = next,
            _ => break,
        }
        levels += 1;
    }
    Ok(if levels == 1 { usual } else { levels })
}

impl Translator for PageTables {
    fn walk(&self, entries: &mut Entries, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        if let Some(physical) = in_window(address.0) {
            return Ok(Some(Leaf::linear(address.0, physical)));
        }
        // The upper half of the CPU's addresses (vm_map_base). Tables may have fewer bits.
        if address.0.cast_signed() >> (WINDOW_BITS - 1) != -1 {
            return Ok(None);
        }
        let bits = self.page_shift - 3;
        let mut table = self.root;
        for level in (0..self.levels).rev() {
            let shift = self.page_shift + bits * level;
            let index = address.0 >> shift & ((1 << bits) - 1);
            let at = table.wrapping_add(index * 8);
            let entry = entries.read(level_name(level, self.levels), at, Endian::Little)?;
            match self.target(level, entry) {
                Target::Nothing => return Ok(None),
                Target::Memory { at, size } => return Ok(Some(Leaf::within(address.0, at, size))),
                Target::Table { at, .. } => table = at,
            }
        }
        Ok(None)
    }

    fn tree(&self) -> Option<TableTree> {
        let bits = self.page_shift - 3;
        let levels = (0..self.levels).map(|level| (self.page_shift + bits * level, bits));
        let start = !0 << (WINDOW_BITS - 1);
        Some(TableTree::new(self.root, start, levels, Endian::Little))
    }

    fn target(&self, level: u32, entry: u64) -> Target {
        if level > 0 && (level > 1 || entry & HUGE == 0) {
            return in_window(entry).map_or(Target::Nothing, Target::table);
        }
        let shift = self.page_shift + (self.page_shift - 3) * level;
        match entry & VALID {
            0 => Target::Nothing,
            _ => Target::memory(entry & ADDRESS, 1 << shift),
        }
    }
}
