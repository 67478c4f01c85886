//! Radix page tables (Power ISA, book III, "Radix Tree Translation";
//! arch/powerpc/include/asm/book3s/64/radix.h).

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use crate::arch::entries::{Entries, level_name};
use crate::arch::table_tree::{TableTree, Target};
use crate::arch::translator::{Leaf, Translator};
use crate::error::SourceError;

/// Bit 63: the entry is valid.
const VALID: u64 = 1 << 63;
/// _PAGE_PTE: the entry is a leaf.
pub(super) const LEAF: u64 = 1 << 62;
/// The bits of a directory entry that are not the next table's address (PMD_MASKED_BITS).
pub(super) const NOT_ADDRESS: u64 = 0xc000_0000_0000_00ff;
/// The address bits of a leaf.
pub(super) const ADDRESS: u64 = 0x001f_ffff_ffff_f000;
/// The bits that select the kernel's quadrant.
const QUADRANT: u64 = 0xc;

/// A tree of four levels, which translates 52 bits.
pub(super) struct Radix {
    root: u64,
    page_shift: u32,
}

impl Radix {
    pub(super) fn new(root: u64, page_shift: u32) -> Self {
        Self { root, page_shift }
    }

    /// Index bits of the tables, the lowest first.
    fn index_bits(&self) -> [u32; 4] {
        [if self.page_shift == 16 { 5 } else { 9 }, 9, 9, 13]
    }

    /// The first address bit of the index of a table of `level`.
    fn shift(&self, level: u32) -> u32 {
        let below = self.index_bits().into_iter().take(level as usize);
        self.page_shift + below.sum::<u32>()
    }
}

impl Translator for Radix {
    fn walk(&self, entries: &mut Entries, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        let bits = self.index_bits();
        let mut shift = self.page_shift + bits.iter().sum::<u32>();
        if address.0 >> 60 != QUADRANT || address.0 << 4 >> 4 >> shift != 0 {
            return Ok(None);
        }
        let mut table = self.root;
        for (level, bits) in (0..4).zip(bits).rev() {
            shift -= bits;
            let index = address.0 >> shift & ((1 << bits) - 1);
            let at = table.wrapping_add(index * 8);
            // Big-endian with either byte order of the kernel, since 4.7 (commit 5dc1ef858c12).
            let entry = entries.read(level_name(level, 4), at, Endian::Big)?;
            match self.target(level, entry) {
                Target::Nothing => return Ok(None),
                Target::Memory { at, size } => return Ok(Some(Leaf::within(address.0, at, size))),
                Target::Table { at, .. } => table = at,
            }
        }
        Ok(None)
    }

    fn tree(&self) -> Option<TableTree> {
        let levels = (0..4).zip(self.index_bits());
        let levels = levels.map(|(level, bits)| (self.shift(level), bits));
        Some(TableTree::new(
            self.root,
            QUADRANT << 60,
            levels,
            Endian::Big,
        ))
    }

    fn target(&self, level: u32, entry: u64) -> Target {
        if entry & VALID == 0 {
            Target::Nothing
        } else if entry & LEAF != 0 {
            Target::memory(entry & ADDRESS, 1 << self.shift(level))
        } else {
            Target::table(entry & !NOT_ADDRESS)
        }
    }
}
