//! Region, segment and page tables (arch/s390/include/asm/pgtable.h).

use std::iter;
use std::ops::Range;

use bigiron_format::bytes::Endian;
use bigiron_format::{PhysAddr, VirtAddr};

use crate::arch::entries::Entries;
use crate::arch::table_tree::{TableTree, Target};
use crate::arch::translator::{Leaf, Translator};
use crate::error::SourceError;
use crate::memory::PhysicalMemory;

/// Entries of a region or segment table (_CRST_ENTRIES).
const ENTRIES: usize = 2048;
/// Bytes of such a table.
const TABLE_BYTES: usize = 8 * ENTRIES;
/// Index bits of such a table.
const INDEX_BITS: u32 = 11;
/// Index bits of a page table.
const PAGE_INDEX_BITS: u32 = 8;
/// log2 of the memory of a page table, 256 pages, and the first address bit of a segment's index.
const SEGMENT_SHIFT: u32 = 20;
/// _REGION_ENTRY_INVALID and _SEGMENT_ENTRY_INVALID.
const INVALID: u64 = 0x20;
/// _PAGE_INVALID.
const PAGE_INVALID: u64 = 0x400;
/// _SEGMENT_ENTRY_LARGE and _REGION3_ENTRY_LARGE.
const LARGE: u64 = 0x400;
/// The first addresses are the prefix area, which maps to itself.
const LOWCORE: Range<u64> = 0..0x2000;

/// Names of the tables, the lowest first.
const NAMES: [&str; 5] = ["page", "segment", "region 3", "region 2", "region 1"];

/// The kernel's tables.
pub(super) struct PageTables {
    root: u64,
    /// Number of tables above the page tables: 1 to 4.
    upper: u32,
    /// Addresses that are the same in both spaces: .amode31.
    same: Range<u64>,
}

impl PageTables {
    /// Finds the tables below `root`: its entries tell of which type it is.
    pub(super) fn find(
        root: u64,
        same: Range<u64>,
        memory: &PhysicalMemory,
    ) -> Result<Self, SourceError> {
        let root = root & !0xfff;
        let mut table = vec![0; TABLE_BYTES];
        memory.read(PhysAddr(root), &mut table)?;
        let entries = table.as_chunks::<8>().0.iter();
        let mut entries = entries.map(|entry| u64::from_be_bytes(*entry));
        // An invalid entry may have no type.
        let valid = entries.find(|entry| entry & INVALID == 0).unwrap_or(0);
        let upper = (valid >> 2 & 3) as u32 + 1;
        Ok(Self { root, upper, same })
    }
}

impl Translator for PageTables {
    fn walk(&self, entries: &mut Entries, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        let found = self.by_tables(entries, address.0)?;
        let holds = |range: &Range<u64>| range.contains(&address.0);
        let same = [&LOWCORE, &self.same]
            .into_iter()
            .find(|range| holds(range));
        Ok(found.or_else(|| {
            let len = same?.end - address.0;
            let physical = PhysAddr(address.0);
            Some(Leaf { physical, len })
        }))
    }

    fn tree(&self) -> Option<TableTree> {
        let upper = (0..self.upper).map(|level| (SEGMENT_SHIFT + INDEX_BITS * level, INDEX_BITS));
        let levels = iter::once((12, PAGE_INDEX_BITS)).chain(upper);
        Some(TableTree::new(self.root, 0, levels, Endian::Big))
    }

    fn target(&self, level: u32, entry: u64) -> Target {
        let shift = match level {
            0 => 12,
            _ => SEGMENT_SHIFT + INDEX_BITS * (level - 1),
        };
        let memory = Target::memory(entry, 1 << shift);
        match level {
            0 if entry & PAGE_INVALID != 0 => Target::Nothing,
            0 => memory,
            _ if entry & INVALID != 0 => Target::Nothing,
            1 | 2 if entry & LARGE != 0 => memory,
            // A page table has half the size of a page.
            1 => Target::table(entry & !0x7ff),
            _ => {
                // The quarters of the table that exist: the first, and the last.
                let (first, last) = (entry >> 6 & 3, entry & 3);
                Target::Table {
                    at: entry & !0xfff,
                    entries: first << 9..(last + 1) << 9,
                }
            }
        }
    }
}

impl PageTables {
    fn by_tables(&self, entries: &mut Entries, address: u64) -> Result<Option<Leaf>, SourceError> {
        let bits = SEGMENT_SHIFT + INDEX_BITS * self.upper;
        if bits < 64 && address >> bits != 0 {
            return Ok(None);
        }
        let (mut table, mut present) = (self.root, 0..u64::MAX);
        for level in (0..=self.upper).rev() {
            let index = match level {
                0 => address >> 12 & ((1 << PAGE_INDEX_BITS) - 1),
                _ => address >> (SEGMENT_SHIFT + INDEX_BITS * (level - 1)) & (ENTRIES as u64 - 1),
            };
            if !present.contains(&index) {
                return Ok(None);
            }
            let name = NAMES.get(level as usize).copied().unwrap_or_default();
            let entry = entries.read(name, table.wrapping_add(index * 8), Endian::Big)?;
            match self.target(level, entry) {
                Target::Nothing => return Ok(None),
                Target::Memory { at, size } => return Ok(Some(Leaf::within(address, at, size))),
                Target::Table { at, entries } => (table, present) = (at, entries),
            }
        }
        Ok(None)
    }
}
