//! Random access to physical memory, through a small page cache.
//!
//! Translating a virtual address reads four or five page tables, most of which neighbouring
//! addresses share. Petr Tesarik's cache for makedumpfile (2012) halved its system time with
//! eight pages; this one has more and serves every source.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bigiron_format::elf::machine_frames::MachineFrames;
use bigiron_format::{PageFrame, PhysAddr};

use crate::error::SourceError;
use crate::source::{IoMethod, MemorySource, PageReader, SharedPages};

/// Bytes read at once where there is memory for several readers.
const LONG_READ: usize = 256 << 10;

/// Page cache statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Reads of pages in the cache.
    pub hits: u64,
    /// Reads of pages that had to be fetched.
    pub misses: u64,
}

/// Random access to physical memory, shared by threads: with a shared cache
/// (`Source::set_cache`) several read concurrently, otherwise one at a time.
pub struct PhysicalMemory<'a> {
    source: &'a dyn MemorySource,
    io: IoMethod,
    cache_pages: usize,
    /// Readers, each with its own cache, created on first use.
    states: Box<[Mutex<Option<State<'a>>>]>,
    /// Number of pages read at once.
    run: usize,
    /// The frames of page tables, if they are not those of the memory.
    machine_frames: Option<MachineFrames>,
}

struct State<'a> {
    reader: Box<dyn PageReader + 'a>,
    cache: PageCache,
    statistics: CacheStatistics,
}

impl<'a> PhysicalMemory<'a> {
    /// Default number of cached pages: 256 KiB of 4 KiB pages.
    pub const DEFAULT_CACHE_PAGES: usize = 64;

    /// Creates access to the memory of `source`. Each reader caches `cache_pages` pages of
    /// which parts were read, such as page tables (0 for none).
    pub fn new(source: &'a dyn MemorySource, io: IoMethod, cache_pages: usize) -> Self {
        let readers = source.parallel_readers().max(1);
        let run = match readers {
            1 => 1,
            _ => (LONG_READ >> source.page_shift()).max(1),
        };
        Self {
            source,
            io,
            cache_pages,
            states: (0..readers).map(|_| Mutex::new(None)).collect(),
            run,
            // Without a sound note, no kernel is found.
            machine_frames: MachineFrames::find(source.notes()).unwrap_or_default(),
        }
    }

    /// Returns the physical address for one in a page table: another one in a paravirtual guest,
    /// whose page tables have those of the machine. `None` if the guest has nothing there.
    pub fn of_machine(&self, address: u64) -> Option<u64> {
        let Some(frames) = &self.machine_frames else {
            return Some(address);
        };
        let shift = self.source.page_shift();
        let inside = address & ((1 << shift) - 1);
        Some(frames.frame(address >> shift)? << shift | inside)
    }

    /// The memory source.
    pub fn source(&self) -> &'a dyn MemorySource {
        self.source
    }

    /// Fills `buf` from `address`.
    pub fn read(&self, address: PhysAddr, buf: &mut [u8]) -> Result<(), SourceError> {
        let shift = self.source.page_shift();
        let page_size = 1_usize << shift;
        self.with_state(|state| {
            let (mut at, mut done) = (address.0, 0);
            while done < buf.len() {
                let offset = at as usize & (page_size - 1);
                let (frame, left) = (PageFrame(at >> shift), buf.len() - done);
                let len = (page_size - offset).min(left);
                let bytes = if len < page_size {
                    &state.page(frame)?[offset..offset + len]
                } else {
                    state.whole_pages(frame, self.run.min(left >> shift), shift)?
                };
                buf[done..done + bytes.len()].copy_from_slice(bytes);
                done += bytes.len();
                at = at.wrapping_add(bytes.len() as u64);
            }
            Ok(())
        })
    }

    /// Returns at least one and at most `count` pages from `first`, owned. Nothing is copied
    /// where the source has a shared cache of decompressed data.
    pub fn pages(&self, first: PageFrame, count: usize) -> Result<SharedPages, SourceError> {
        let most = (LONG_READ >> self.source.page_shift()).max(1);
        self.with_state(|state| state.reader.shared(first, count.clamp(1, most)))
    }

    /// Statistics of its caches.
    pub fn statistics(&self) -> CacheStatistics {
        let mut sum = CacheStatistics::default();
        for state in &self.states {
            if let Some(state) = &*lock(state) {
                sum.hits += state.statistics.hits;
                sum.misses += state.statistics.misses;
            }
        }
        sum
    }

    /// Calls `work` with a reader that no other thread is using: if possible, the one that this
    /// thread used last, since its cache fits.
    fn with_state<T>(
        &self,
        work: impl FnOnce(&mut State<'a>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let own = thread_number() % self.states.len();
        let (before, after) = self.states.split_at(own);
        let mut in_turn = after.iter().chain(before);
        let free = in_turn.find_map(|state| state.try_lock().ok());
        let mut state = free.unwrap_or_else(|| lock(&self.states[own]));
        let state = state.get_or_insert_with(|| State {
            reader: self.source.reader(self.io),
            cache: PageCache::new(self.cache_pages, 1 << self.source.page_shift()),
            statistics: CacheStatistics::default(),
        });
        work(state)
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of this thread; threads started one after another have consecutive numbers.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(next));
            next
        })
    })
}

impl State<'_> {
    /// Returns a page of which a part is needed.
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

    /// Reads whole pages without caching them, because they are not read again for more bytes.
    fn whole_pages(
        &mut self,
        first: PageFrame,
        count: usize,
        shift: u32,
    ) -> Result<&[u8], SourceError> {
        let pages = self.reader.pages(first, count);
        self.statistics.misses += match &pages {
            Ok(pages) => pages.len() as u64 >> shift,
            Err(_) => 1,
        };
        pages
    }
}

/// Pages by frame number. The clock algorithm spares recently used pages, so that one scan does
/// not evict the page tables that every access needs.
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

    /// Inserts a page in place of one that was not used recently.
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
    fn used_page_stays_and_unused_page_is_evicted() {
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
    fn scan_does_not_evict_pages_in_constant_use() {
        let mut cache = PageCache::new(8, 64);
        cache.insert(PageFrame(0), &page(0));
        for frame in 1..1000 {
            assert!(cache.find(PageFrame(0)).is_some(), "gone at {frame}");
            cache.insert(PageFrame(frame), &page(frame));
        }
        assert_eq!(cache.index.len(), 8);
    }
}
