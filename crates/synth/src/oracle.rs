//! The pages that a dump level keeps, determined from the text and not from struct pages.
//!
//! The rules are those of makedumpfile's HEAD in mid-2026 (`__exclude_unnecessary_pages` and
//! `create_2nd_bitmap`).

use crate::machine::Machine;
use crate::spec::{Class, Run};

/// Page cache without private data.
const CACHE: u8 = 2;
/// All page cache.
const CACHE_PRIVATE: u8 = 4;
const USER: u8 = 8;
const FREE: u8 = 16;

impl Machine {
    /// Returns for every page frame below [`Machine::max_pfn`] true if a dump of this level
    /// keeps it. Frames that are not RAM are not kept. Zero pages count as kept at every level.
    pub fn expected_dumpable(&self, level: u8) -> Vec<bool> {
        // Without PG_hwpoison and without a level bit that requires them, struct pages are not
        // read, and offline pages are kept.
        let scanned =
            self.spec.options.memory_failure || level & (CACHE | CACHE_PRIVATE | USER | FREE) != 0;
        let mut kept = vec![false; self.max_pfn() as usize];
        for pfn in self.ram().iter().cloned().flatten() {
            kept[pfn as usize] = match self.run(pfn) {
                Some(run) if scanned => !excluded(run, level, self.spec.page_orders()),
                _ => true,
            };
        }
        kept
    }
}

fn excluded(run: &Run, level: u8, orders: u8) -> bool {
    let wanted = match run.class {
        Class::Kernel | Class::Reserved | Class::PageTable | Class::Slab => false,
        // An impossible order is a sign of damage: the block is kept.
        Class::Free => level & FREE != 0 && run.bad_order.is_none_or(|order| order < orders.into()),
        Class::Unaccepted => level & FREE != 0,
        Class::Cache if run.private => level & CACHE_PRIVATE != 0,
        Class::Cache | Class::SwapCache => level & (CACHE | CACHE_PRIVATE) != 0,
        Class::Anon | Class::Ksm | Class::Hugetlb => level & USER != 0,
        Class::Offline => true,
    };
    // Poison on a head counts for the whole compound page.
    wanted || run.hwpoison
}
