//! Random reads of physical memory, through a small cache of pages.
//!
//! Translating a virtual address reads four or five page tables, and
//! neighbours share most of them. Petr Tesarik's cache for makedumpfile
//! (2012) halved its system time with eight pages; ours has more and is the
//! same for every source.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use bigiron_format::{PageFrame, PhysAddr};

use crate::error::SourceError;
use crate::source::{IoMethod, MemorySource, PageReader};

/// How often the cache had a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Reads of pages that were in the cache.
    pub hits: u64,
    /// Reads of pages that had to be fetched.
    pub misses: u64,
}

/// Physical memory, any bytes of it at a time.
pub struct PhysicalMemory<'a> {
    source: &'a dyn MemorySource,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    reader: Box<dyn PageReader + 'a>,
    cache: PageCache,
    statistics: CacheStatistics,
}

impl<'a> PhysicalMemory<'a> {
    /// Pages kept when nothing else is said: 256 KiB of 4 KiB pages.
    pub const DEFAULT_CACHE_PAGES: usize = 64;

    /// The memory of `source`, with a cache of `cache_pages` pages (0 for none).
    pub fn new(source: &'a dyn MemorySource, io: IoMethod, cache_pages: usize) -> Self {
        let page_size = 1 << source.page_shift();
        let state = State {
            reader: source.reader(io),
            cache: PageCache::new(cache_pages, page_size),
            statistics: CacheStatistics::default(),
        };
        Self {
            source,
            state: Mutex::new(state),
        }
    }

    /// The source.
    pub fn source(&self) -> &'a dyn MemorySource {
        self.source
    }

    /// Fills `buf` from `address` on.
    pub fn read(&self, address: PhysAddr, buf: &mut [u8]) -> Result<(), SourceError> {
        let shift = self.source.page_shift();
        let page_size = 1_usize << shift;
        let mut state = self.state();
        let (mut at, mut done) = (address.0, 0);
        while done < buf.len() {
            let offset = at as usize & (page_size - 1);
            let len = (page_size - offset).min(buf.len() - done);
            let page = state.page(PageFrame(at >> shift))?;
            buf[done..done + len].copy_from_slice(&page[offset..offset + len]);
            done += len;
            at = at.wrapping_add(len as u64);
        }
        Ok(())
    }

    /// How often the cache had a page so far.
    pub fn statistics(&self) -> CacheStatistics {
        self.state().statistics
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

impl State<'_> {
    fn page(&mut self, frame: PageFrame) -> Result<&[u8], SourceError> {
        if let Some(slot) = self.cache.find(frame) {
            self.statistics.hits += 1;
            return Ok(self.cache.page(slot));
        }
        self.statistics.misses += 1;
        let page = self.reader.pages(frame, 1)?;
        if self.cache.slots.capacity() == 0 {
            return Ok(page);
        }
        let slot = self.cache.insert(frame, page);
        Ok(self.cache.page(slot))
    }
}

/// Pages by frame number. The clock hand passes over pages that were used
/// since it came by last, so one pass over much memory does not push out the
/// page tables that everyone needs.
struct PageCache {
    page_size: usize,
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    index: HashMap<PageFrame, usize>,
    hand: usize,
}

struct Slot {
    frame: PageFrame,
    used: bool,
}

impl PageCache {
    fn new(pages: usize, page_size: usize) -> Self {
        Self {
            page_size,
            bytes: Vec::new(),
            slots: Vec::with_capacity(pages),
            index: HashMap::with_capacity(pages),
            hand: 0,
        }
    }

    fn find(&mut self, frame: PageFrame) -> Option<usize> {
        let slot = *self.index.get(&frame)?;
        self.slots[slot].used = true;
        Some(slot)
    }

    fn page(&self, slot: usize) -> &[u8] {
        &self.bytes[slot * self.page_size..][..self.page_size]
    }

    /// Takes a page in, in place of one that was not used lately.
    fn insert(&mut self, frame: PageFrame, page: &[u8]) -> usize {
        let slot = if self.slots.len() < self.slots.capacity() {
            self.slots.push(Slot { frame, used: false });
            self.bytes.resize(self.slots.len() * self.page_size, 0);
            self.slots.len() - 1
        } else {
            while std::mem::take(&mut self.slots[self.hand].used) {
                self.hand = (self.hand + 1) % self.slots.len();
            }
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            self.index.remove(&self.slots[slot].frame);
            self.slots[slot] = Slot { frame, used: false };
            slot
        };
        self.index.insert(frame, slot);
        self.bytes[slot * self.page_size..][..self.page_size].copy_from_slice(page);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(frame: u64) -> Vec<u8> {
        vec![frame as u8; 64]
    }

    #[test]
    fn a_used_page_stays_and_an_unused_one_goes() {
        let mut cache = PageCache::new(2, 64);
        cache.insert(PageFrame(1), &page(1));
        cache.insert(PageFrame(2), &page(2));
        assert!(cache.find(PageFrame(1)).is_some());
        cache.insert(PageFrame(3), &page(3));
        assert!(cache.find(PageFrame(2)).is_none());
        let slot = cache.find(PageFrame(1)).unwrap();
        assert_eq!(cache.page(slot), page(1));
        let slot = cache.find(PageFrame(3)).unwrap();
        assert_eq!(cache.page(slot), page(3));
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_used_all_the_time() {
        let mut cache = PageCache::new(8, 64);
        cache.insert(PageFrame(0), &page(0));
        for frame in 1..1000 {
            assert!(cache.find(PageFrame(0)).is_some(), "gone at {frame}");
            cache.insert(PageFrame(frame), &page(frame));
        }
        assert_eq!(cache.index.len(), 8);
    }
}
