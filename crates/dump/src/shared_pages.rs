//! Remembers pages that are in the dump already, to store equal ones once.
//!
//! Most pages have no equal, so the common case is a lookup without a result. It reads one
//! cache line of a table that stays in the processor's cache. The pages themselves are in a
//! ring, which is written in order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use bigiron_format::PageFrame;

/// Pages whose hashes share a set of the table; the set is half full.
const WAYS: usize = 4;
const SLOTS_PER_PAGE: usize = 2;
/// A slot without a page.
const EMPTY: u64 = 0;

/// Position of a page's data in the dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredPage {
    /// A page frame with these bytes, for comparison: equal hashes alone prove nothing.
    pub frame: PageFrame,
    /// Offset of the data.
    pub offset: u64,
    /// Size of the data.
    pub size: u32,
    /// The descriptor's flags.
    pub flags: u32,
}

/// Stored pages by a hash of their bytes; bounded: the oldest pages are dropped.
pub struct SharedPages {
    /// The upper half of a slot is that of the hash, the lower half is the page's place in the
    /// ring, counted from 1. A slot may refer to a page that was overwritten: only the hash in
    /// the ring is authoritative.
    sets: Vec<Set>,
    ring: Mutex<Ring>,
}

/// Slots in one cache line.
#[derive(Default)]
#[repr(align(32))]
struct Set([AtomicU64; WAYS]);

struct Ring {
    pages: Vec<(u64, StoredPage)>,
    next: usize,
}

impl SharedPages {
    /// Creates a table that takes about `bytes` of memory.
    pub fn new(bytes: u64) -> Self {
        let per_page = size_of::<(u64, StoredPage)>() + SLOTS_PER_PAGE * size_of::<u64>();
        let pages = (bytes / per_page as u64).clamp(1, u64::from(u32::MAX)) as usize;
        let sets = (pages * SLOTS_PER_PAGE).div_ceil(WAYS);
        Self {
            sets: std::iter::repeat_with(Default::default)
                .take(sets)
                .collect(),
            ring: Mutex::new(Ring {
                pages: vec![(0, StoredPage::default()); pages],
                next: 0,
            }),
        }
    }

    /// Returns a stored page with this hash.
    pub fn find(&self, hash: u64) -> Option<StoredPage> {
        // A slot is only a hint, and the ring behind the lock is authoritative, so the order
        // between slots does not matter.
        let slots = self
            .set(hash)
            .iter()
            .map(|slot| slot.load(Ordering::Relaxed));
        let mut alike = slots.filter(|slot| *slot != EMPTY && slot >> 32 == hash >> 32);
        alike.find_map(|slot| {
            let place = (slot as u32 as usize).checked_sub(1)?;
            let (found, page) = *self.lock().pages.get(place)?;
            (found == hash).then_some(page)
        })
    }

    /// Adds pages whose data is in the file, by their hashes.
    pub fn insert(&self, pages: impl Iterator<Item = (u64, StoredPage)>) {
        let mut ring = self.lock();
        for (hash, page) in pages {
            let place = ring.next;
            ring.pages[place] = (hash, page);
            ring.next = (place + 1) % ring.pages.len();
            let slot = &self.set(hash)[place % WAYS];
            slot.store(((hash >> 32) << 32) | (place as u64 + 1), Ordering::Relaxed);
        }
    }

    fn set(&self, hash: u64) -> &[AtomicU64; WAYS] {
        let lower = u64::from(hash as u32);
        &self.sets[((lower * self.sets.len() as u64) >> 32) as usize].0
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use bigiron_helpers::{Stop, run};

    use super::*;

    /// Creates a table of `pages` pages.
    fn table(pages: usize) -> SharedPages {
        let table = SharedPages::new(pages as u64 * 64);
        let made = table.lock().pages.len();
        assert!((pages / 2..=pages * 2).contains(&made), "{made}");
        table
    }

    /// Returns the hash of the `n`-th page; both halves differ between pages.
    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn page(n: u64) -> StoredPage {
        StoredPage {
            frame: PageFrame(n),
            offset: n,
            size: n as u32 + 1,
            flags: n as u32,
        }
    }

    #[test]
    fn stored_pages_are_found_and_the_oldest_are_evicted() {
        let table = table(1000);
        assert_eq!(table.find(0), None);
        let all = table.lock().pages.len() as u64;
        table.insert((0..all).map(|n| (hash(n), page(n))));
        let found = |numbers: std::ops::Range<u64>| {
            let found = numbers.filter(|n| match table.find(hash(*n)) {
                Some(stored) => stored == page(*n),
                None => false,
            });
            found.count() as u64
        };
        // A few pages lost their slot to others.
        assert!(found(0..all) > all * 8 / 10, "{}", found(0..all));
        table.insert((all..all * 3 / 2).map(|n| (hash(n), page(n))));
        assert_eq!(found(0..all / 2), 0, "the oldest are gone");
        assert!(found(all / 2..all * 3 / 2) > all * 8 / 10);
    }

    #[test]
    fn equal_hash_bits_do_not_match_a_different_page() {
        let table = table(1);
        let given = 0x1234_5678_0000_0001;
        table.insert([(given, page(1))].into_iter());
        assert_eq!(table.find(given), Some(page(1)));
        assert_eq!(table.find(given + 1), None, "the same slot, another hash");
        table.insert((2..100).map(|n| (hash(n), page(n))));
        assert_eq!(table.find(given), None);
    }

    #[test]
    fn page_stored_by_one_helper_is_found_intact_by_others() {
        let table = table(100);
        let found = run(4, &Stop::new(), |_| {
            let mut found = 0_u64;
            // Each page twice: a helper that runs alone also finds the pages it stored.
            for n in (0..20_000).map(|n| n / 2 % 200) {
                match table.find(hash(n)) {
                    Some(stored) => {
                        assert_eq!(stored, page(n));
                        found += 1;
                    }
                    None => table.insert([(hash(n), page(n))].into_iter()),
                }
            }
            Ok::<_, ()>(found)
        });
        assert!(found.unwrap().iter().sum::<u64>() > 0);
    }
}
