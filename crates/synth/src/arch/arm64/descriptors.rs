//! Arm Architecture Reference Manual, D8.3 "Translation table descriptor formats".

use crate::paging::{Attributes, Codec, Entry, Level};

/// Valid, and a table or, at the lowest level, a page.
const TABLE: u64 = 3;
const BLOCK: u64 = 1;
/// Access flag.
const ACCESSED: u64 = 1 << 10;
/// Inner shareable: bits 9:8, which are address bits with LPA2.
const SHAREABLE: u64 = 3 << 8;
/// AttrIndx of normal memory in Linux's MAIR_EL1.
const NORMAL: u64 = 0;
const CONTIGUOUS: u64 = 1 << 52;
/// UXN, PXN, and bit 55, which is software's PTE_DIRTY.
const NO_EXEC: u64 = 1 << 54 | 1 << 53 | 1 << 55;
/// PXNTable and UXNTable.
const TABLE_NO_EXEC: u64 = 1 << 60 | 1 << 59;

#[derive(Debug)]
pub(super) struct Descriptors {
    pub(super) page_shift: u32,
    /// Bits of virtual addresses that the tables translate.
    pub(super) bits: u32,
    /// 52-bit addresses with pages of 64 KiB.
    pub(super) lpa: bool,
    /// 52-bit addresses with pages of 4 and 16 KiB.
    pub(super) lpa2: bool,
}

impl Descriptors {
    /// Places the bits of a physical address.
    fn address(&self, paddr: u64) -> u64 {
        if self.lpa {
            // Bits 51:48 in 15:12.
            paddr & 0xffff_ffff_0000 | paddr >> 48 << 12
        } else if self.lpa2 {
            // Bits 51:50 in 9:8.
            paddr & 0x3_ffff_ffff_f000 | paddr >> 50 << 8
        } else {
            paddr
        }
    }
}

impl Codec for Descriptors {
    fn levels(&self) -> Vec<Level> {
        let per_level = self.page_shift - 3;
        let shifts = (self.page_shift..self.bits).step_by(per_level as usize);
        let mut levels: Vec<_> = shifts
            .map(|shift| Level {
                shift,
                bits: per_level.min(self.bits - shift),
            })
            .collect();
        levels.reverse();
        levels
    }

    /// A short top-level table is still allocated as a page.
    fn table_bytes(&self, _height: usize) -> u64 {
        1 << self.page_shift
    }

    fn table(&self, _height: usize, next: u64) -> u64 {
        self.address(next) | TABLE_NO_EXEC | TABLE
    }

    fn leaf(&self, height: usize, paddr: u64, attributes: Attributes) -> u64 {
        let kind = if height == 0 { TABLE } else { BLOCK };
        let shareable = if self.lpa2 { 0 } else { SHAREABLE };
        let mut entry = self.address(paddr) | ACCESSED | shareable | NORMAL << 2 | kind;
        if !attributes.exec {
            entry |= NO_EXEC;
        }
        if attributes.contiguous {
            entry |= CONTIGUOUS;
        }
        entry
    }

    fn read(&self, height: usize, entry: u64) -> Entry {
        match entry & 3 {
            0 | 2 => Entry::Empty,
            1 => Entry::Leaf,
            _ if height == 0 => Entry::Leaf,
            _ if self.lpa => Entry::Table(entry & 0xffff_ffff_0000 | (entry >> 12 & 0xf) << 48),
            _ if self.lpa2 => Entry::Table(entry & 0x3_ffff_ffff_f000 | (entry >> 8 & 3) << 50),
            _ => Entry::Table(entry & 0xffff_ffff_f000),
        }
    }
}
