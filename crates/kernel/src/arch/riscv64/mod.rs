//! riscv64: page tables of three to five levels (Sv39, Sv48, Sv57).
//!
//! The RISC-V Instruction Set Manual, volume II, "Supervisor-Level ISA"; what VMCOREINFO has is in
//! arch/riscv/kernel/vmcore_info.c.

#[cfg(feature = "stacks")]
mod registers;
#[cfg(feature = "stacks")]
mod unwind;

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::architecture::{Architecture, noted_modules};
use super::entries::{Entries, level_name};
use super::table_tree::{TableTree, Target};
use super::translator::{Leaf, Translator};
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "riscv64",
    aliases: &[],
    byte_orders: &[(Endian::Little, "riscv64")],
    page_shifts: &[12],
    physical_bits: 56,
    kernel_start: 1 << 63,
    // EM_RISCV.
    elf_machine: 243,
    prstatus_size: 376,
    translator,
    section_bits,
    phys_base,
    image_area: None,
    modules: noted_modules,
    byte_order: None,
    vmcoreinfo: None,
    #[cfg(feature = "stacks")]
    stacks: Some(&unwind::Riscv64),
};

/// V: the entry is valid.
const VALID: u64 = 1;
/// R, W and X: the entry is a leaf.
const LEAF: u64 = 7 << 1;
/// N (Svnapot): the entry is one of several that map one larger range.
const NAPOT: u64 = 1 << 63;
/// The page number in an entry.
const PAGE_NUMBER: u64 = 0x003f_ffff_ffff_fc00;
/// The lowest bits of the page number of a 64 KiB range (the only size that is defined).
const NAPOT_64K: u64 = 0b1000;

struct PageTables {
    root: u64,
    levels: u32,
}

/// arch/riscv/include/asm/sparsemem.h.
fn section_bits(_: &Vmcoreinfo) -> (i64, i64) {
    (27, 56)
}

/// makedumpfile writes phys_ram_base into this field.
fn phys_base(info: &Vmcoreinfo) -> u64 {
    info.number("phys_ram_base").unwrap_or(0).cast_unsigned()
}

fn translator(info: &Vmcoreinfo, _: &PhysicalMemory) -> Result<Box<dyn Translator>, KernelError> {
    let needed = |key: &str| KernelError::missing(key, "translate addresses");
    let symbol = info
        .symbol("swapper_pg_dir")
        .ok_or_else(|| needed("SYMBOL(swapper_pg_dir)"))?;
    let number = |name: &str| info.number(name).map(i64::cast_unsigned);
    let levels = match info.number("VA_BITS") {
        Some(39) => 3,
        Some(48) => 4,
        Some(57) => 5,
        Some(bits) => {
            return Err(KernelError::Implausible {
                what: "NUMBER(VA_BITS) in VMCOREINFO".into(),
                found: bits.to_string(),
                expected: "39, 48 or 57",
            });
        }
        None => return Err(needed("NUMBER(VA_BITS)")),
    };
    // va_kernel_pa_offset is there since 6.4 (commit 649d6b1019a2).
    let offset = match number("va_kernel_pa_offset") {
        Some(offset) => offset,
        None => {
            let link = number("KERNEL_LINK_ADDR");
            let link = link.ok_or_else(|| needed("NUMBER(va_kernel_pa_offset)"))?;
            let ram = number("phys_ram_base");
            link.wrapping_sub(ram.ok_or_else(|| needed("NUMBER(phys_ram_base)"))?)
        }
    };
    let root = symbol.0.wrapping_sub(offset);
    Ok(Box::new(PageTables { root, levels }))
}

impl Translator for PageTables {
    fn walk(&self, entries: &mut Entries, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        // An address sign-extends the highest bit that the tables translate.
        let unused = 64 - (12 + 9 * self.levels);
        if (address.0 << unused).cast_signed() >> unused != address.0.cast_signed() {
            return Ok(None);
        }
        let mut table = self.root;
        for level in (0..self.levels).rev() {
            let shift = 12 + 9 * level;
            let index = address.0 >> shift & 0x1ff;
            let name = level_name(level, self.levels);
            let at = table.wrapping_add(index * 8);
            let entry = entries.read(name, at, Endian::Little)?;
            match self.target(level, entry) {
                Target::Nothing => return Ok(None),
                Target::Memory { at, size } => return Ok(Some(Leaf::within(address.0, at, size))),
                Target::Table { at, .. } => table = at,
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

    fn target(&self, level: u32, entry: u64) -> Target {
        if entry & VALID == 0 {
            return Target::Nothing;
        }
        let page = (entry & PAGE_NUMBER) >> 10;
        if entry & LEAF == 0 {
            return Target::table(page << 12);
        }
        match entry & NAPOT {
            0 => Target::memory(page << 12, 1 << (12 + 9 * level)),
            _ if level == 0 && page & 0xf == NAPOT_64K => Target::memory(page << 12, 1 << 16),
            _ => Target::Nothing,
        }
    }
}
