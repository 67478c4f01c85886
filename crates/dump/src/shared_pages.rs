//! Remembers pages that are in the dump already, to store equal ones once.

use std::sync::Mutex;

use bigiron_format::PageFrame;

/// Pages that share a place in the table; the oldest goes first.
const WAYS: usize = 4;
/// Sets behind one lock.
const SETS_PER_LOCK: usize = 64;

/// Where a page's data is in the dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredPage {
    /// A page frame with these bytes, to compare with: equal hashes alone
    /// prove nothing.
    pub frame: PageFrame,
    /// Offset of the data.
    pub offset: u64,
    /// Size of the data.
    pub size: u32,
    /// The descriptor's flags.
    pub flags: u32,
}

/// Stored pages by a hash of their bytes; bounded, forgets the oldest.
pub struct SharedPages {
    locks: Vec<Mutex<Vec<Set>>>,
    set_count: u64,
}

#[derive(Clone, Default)]
struct Set {
    entries: [(u64, StoredPage); WAYS],
    next: u8,
}

impl SharedPages {
    /// A table that takes about `bytes` of memory.
    pub fn new(bytes: u64) -> Self {
        let sets = bytes / size_of::<Set>() as u64;
        let locks = (sets as usize / SETS_PER_LOCK).max(1);
        Self {
            locks: (0..locks)
                .map(|_| Mutex::new(vec![Set::default(); SETS_PER_LOCK]))
                .collect(),
            set_count: (locks * SETS_PER_LOCK) as u64,
        }
    }

    /// A stored page with this hash.
    pub fn find(&self, hash: u64) -> Option<StoredPage> {
        self.with_set(hash, |set| {
            let found = set
                .entries
                .iter()
                .find(|(key, page)| *key == hash && page.size > 0);
            found.map(|(_, page)| *page)
        })
    }

    /// Remembers a page whose data is in the file.
    pub fn insert(&self, hash: u64, page: StoredPage) {
        self.with_set(hash, |set| {
            let slot = usize::from(set.next) % WAYS;
            set.entries[slot] = (hash, page);
            set.next = set.next.wrapping_add(1);
        });
    }

    fn with_set<T>(&self, hash: u64, action: impl FnOnce(&mut Set) -> T) -> T {
        let set = (hash % self.set_count) as usize;
        let lock = &self.locks[set / SETS_PER_LOCK];
        let mut sets = lock.lock().unwrap_or_else(|poison| poison.into_inner());
        action(&mut sets[set % SETS_PER_LOCK])
    }
}

#[cfg(test)]
mod tests {
    use bigiron_helpers::{Stop, run};

    use super::*;

    #[test]
    fn it_finds_what_it_was_given_and_forgets_the_oldest() {
        let table = SharedPages::new(1);
        let page = |n: u64| StoredPage {
            frame: PageFrame(n),
            offset: n,
            size: 1,
            flags: 0,
        };
        assert_eq!(table.find(0), None);
        let same_set: Vec<u64> = (0..5).map(|n| 7 + n * table.set_count).collect();
        for hash in &same_set {
            table.insert(*hash, page(*hash));
        }
        assert_eq!(table.find(same_set[0]), None);
        for hash in &same_set[1..] {
            assert_eq!(table.find(*hash), Some(page(*hash)));
        }
    }

    #[test]
    fn a_page_that_one_helper_stores_is_found_whole_by_the_others() {
        let table = SharedPages::new(1);
        let found = run(4, &Stop::new(), |_| {
            let mut found = 0_u64;
            for n in (0..20_000).map(|n| n % (2 * table.set_count)) {
                if let Some(page) = table.find(n) {
                    assert_eq!((page.frame, page.offset), (PageFrame(n), n));
                    assert_eq!((u64::from(page.size), u64::from(page.flags)), (n + 1, n));
                    found += 1;
                } else {
                    let page = StoredPage {
                        frame: PageFrame(n),
                        offset: n,
                        size: n as u32 + 1,
                        flags: n as u32,
                    };
                    table.insert(n, page);
                }
            }
            Ok::<_, ()>(found)
        });
        assert!(found.unwrap().iter().sum::<u64>() > 0);
    }
}
