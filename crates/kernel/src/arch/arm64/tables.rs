//! Page tables (Arm Architecture Reference Manual, "The AArch64 Virtual Memory System
//! Architecture"; arch/arm64/include/asm/pgtable-hwdef.h).

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use crate::arch::entries::{Entries, level_name};
use crate::arch::table_tree::{TableTree, Target};
use crate::arch::translator::{Leaf, Translator};
use crate::error::SourceError;

/// Bits 1:0 of a descriptor: a table, or a page at the lowest level.
const TABLE: u64 = 3;
/// Bits 1:0 of a descriptor: a block, at a higher level.
const BLOCK: u64 = 1;

/// The dimensions of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// log2 of the page size.
    pub(super) page_shift: u32,
    /// Address bits that the tables translate.
    pub(super) bits: u32,
}

impl Shape {
    /// Number of index bits of a full table.
    fn index_bits(self) -> u32 {
        self.page_shift - 3
    }

    fn levels(self) -> u32 {
        (self.bits - self.page_shift).div_ceil(self.index_bits())
    }

    /// True if pages of 4 or 16 KiB have physical addresses of 52 bits (LPA2). Only then the
    /// address bits 51:50 are in bits 9:8, which else are the shareability.
    fn has_lpa2(self) -> bool {
        self.page_shift != 16 && self.bits == 52
    }

    /// The physical address in a descriptor.
    fn address(self, entry: u64) -> u64 {
        let plain = |bits: u32| entry & ((1 << bits) - (1 << self.page_shift));
        if self.page_shift == 16 {
            // Bits 15:12 are the address bits 51:48, and 0 on CPUs without LPA.
            plain(48) | (entry >> 12 & 0xf) << 48
        } else if self.has_lpa2() {
            plain(50) | (entry >> 8 & 3) << 50
        } else {
            plain(48)
        }
    }

    /// Returns true if descriptors of `level`, where 0 is the lowest, can map a block.
    fn has_blocks(self, level: u32) -> bool {
        match (self.page_shift, level) {
            (_, 1) => true,
            (12, 2) | (16, 2) => true,
            (12, 3) | (14, 2) => self.has_lpa2(),
            _ => false,
        }
    }
}

/// The page tables of the kernel's half of the address space.
pub(super) struct PageTables {
    root: u64,
    shape: Shape,
    endian: Endian,
}

impl PageTables {
    pub(super) fn new(root: u64, shape: Shape, endian: Endian) -> Self {
        Self {
            root,
            shape,
            endian,
        }
    }
}

impl Translator for PageTables {
    fn walk(&self, entries: &mut Entries, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        let shape = self.shape;
        // Bits 63:56 may hold a tag, so bit 55 selects the half. Below it all bits that the tables
        // do not translate are set.
        let untagged = (address.0 << 8).cast_signed() >> 8;
        if untagged >> shape.bits != -1 {
            return Ok(None);
        }
        let address = untagged.cast_unsigned();
        let (mut table, levels) = (self.root, shape.levels());
        for level in (0..levels).rev() {
            let shift = shape.page_shift + level * shape.index_bits();
            // The top table may have fewer index bits.
            let bits = shape.index_bits().min(shape.bits - shift);
            let index = address >> shift & ((1 << bits) - 1);
            let at = table.wrapping_add(index * 8);
            let entry = entries.read(level_name(level, levels), at, self.endian)?;
            match self.target(level, entry) {
                Target::Nothing => return Ok(None),
                Target::Memory { at, size } => return Ok(Some(Leaf::within(address, at, size))),
                Target::Table { at, .. } => table = at,
            }
        }
        Ok(None)
    }

    fn tree(&self) -> Option<TableTree> {
        let shape = self.shape;
        let levels = (0..shape.levels()).map(|level| {
            let shift = shape.page_shift + level * shape.index_bits();
            (shift, shape.index_bits().min(shape.bits - shift))
        });
        let start = !0 << shape.bits;
        Some(TableTree::new(self.root, start, levels, self.endian))
    }

    /// The tables of processes, which TTBR0 names, have the form of the kernel's
    /// (arch/arm64/include/asm/pgtable.h).
    fn process_tree(&self, root: u64) -> Option<TableTree> {
        Some(self.tree()?.of_process(root, u64::MAX))
    }

    fn target(&self, level: u32, entry: u64) -> Target {
        let shape = self.shape;
        let address = shape.address(entry);
        let size = 1 << (shape.page_shift + level * shape.index_bits());
        match (entry & 3, level) {
            (TABLE, 0) => Target::memory(address, size),
            (BLOCK, _) if shape.has_blocks(level) => Target::memory(address, size),
            (TABLE, _) => Target::table(address),
            _ => Target::Nothing,
        }
    }
}
