//! Region, segment and page tables (arch/s390/include/asm/pgtable.h).

use std::ops::Range;

use bigiron_format::bytes::Endian;
use bigiron_format::{PhysAddr, VirtAddr};

use crate::arch::entries::Entries;
use crate::arch::translator::{Leaf, Translator};
use crate::error::SourceError;
use crate::memory::PhysicalMemory;

/// Entries of a region or segment table (_CRST_ENTRIES).
const ENTRIES: usize = 2048;
/// Bytes of such a table.
const TABLE_BYTES: usize = 8 * ENTRIES;
/// Index bits of such a table.
const INDEX_BITS: u32 = 11;
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
}

impl PageTables {
    fn by_tables(&self, entries: &mut Entries, address: u64) -> Result<Option<Leaf>, SourceError> {
        let bits = SEGMENT_SHIFT + INDEX_BITS * self.upper;
        if bits < 64 && address >> bits != 0 {
            return Ok(None);
        }
        let mut table = self.root;
        // The quarters of the table that exist: the first, and the last.
        let mut quarters = (0, 3);
        for level in (1..=self.upper).rev() {
            let shift = SEGMENT_SHIFT + INDEX_BITS * (level - 1);
            let index = address >> shift & (ENTRIES as u64 - 1);
            let (first, last) = quarters;
            if !(first..=last).contains(&(index >> 9)) {
                return Ok(None);
            }
            let name = NAMES.get(level as usize).copied().unwrap_or_default();
            let at = table.wrapping_add(index * 8);
            let entry = entries.read(name, at, Endian::Big)?;
            if entry & INVALID != 0 {
                return Ok(None);
            }
            if level <= 2 && entry & LARGE != 0 {
                return Ok(Some(Leaf::within(address, entry, 1 << shift)));
            }
            if level == 1 {
                // A page table has half the size of a page.
                table = entry & !0x7ff;
            } else {
                table = entry & !0xfff;
                quarters = (entry >> 6 & 3, entry & 3);
            }
        }
        let index = address >> 12 & 0xff;
        let entry = entries.read(NAMES[0], table.wrapping_add(index * 8), Endian::Big)?;
        if entry & PAGE_INVALID != 0 {
            return Ok(None);
        }
        Ok(Some(Leaf::within(address, entry, 1 << 12)))
    }
}
