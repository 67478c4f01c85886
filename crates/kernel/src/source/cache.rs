//! The cache of decompressed pages, shared by all readers of a dump.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};

use super::buffer::{Account, Buffer, FREE_BUFFERS};
use super::{CacheUsage, parallel_readers};

/// Memory of an entry besides its data: keys, links, counters.
const OVERHEAD: u64 = 192;
/// Share of the cache for entries that were used again. The rest is for entries used once,
/// through which scans pass.
const HOT_SHARE: f64 = 0.9;
/// Number of scan positions that are tracked.
const FRONTS: usize = 4;
/// Distance behind a scan position within which data counts as decompressed by the same pass.
const NEAR_BYTES: u64 = 2 << 20;
const NEAR_PIECES: u64 = 8;

/// Decompressed bytes, with metadata.
pub(super) struct Unpacked<M> {
    pub(super) meta: M,
    pub(super) buffer: Buffer,
}

impl<M> AsRef<[u8]> for Unpacked<M> {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.bytes
    }
}

#[derive(Clone)]
struct ByBytes;

impl<K, M> Weighter<K, Arc<Unpacked<M>>> for ByBytes {
    fn weight(&self, _key: &K, unpacked: &Arc<Unpacked<M>>) -> u64 {
        unpacked.buffer.size() + OVERHEAD
    }
}

/// A cache of decompressed extents of a dump, each with metadata `M`. Any number of threads use
/// it concurrently: it is sharded, with one lock per shard. While one thread decompresses a
/// missing entry, only threads that need the same entry wait for it.
///
/// Keys are in the order of the dump. Threads that scan the dump together find what another one
/// has just decompressed, which does not mean that it will be needed again: such hits near a
/// scan position do not promote an entry, so that a scan does not evict the hot ones.
pub(super) struct PageCache<M> {
    kept: Cache<u64, Arc<Unpacked<M>>, ByBytes, RandomState>,
    account: Arc<Account>,
    size: u64,
    /// Distance between keys that counts as near.
    near: u64,
    /// Most recently decompressed keys.
    fronts: [AtomicU64; FRONTS],
    unpacked: AtomicU64,
}

impl<M> PageCache<M> {
    /// Creates a cache of at most `bytes`, for entries of about `unit` bytes whose keys are
    /// `step` apart; `None` if that is too little for any. The data that readers hold, `held`
    /// bytes each, is included, for as many readers as [`parallel_readers`] returns.
    pub(super) fn new(bytes: u64, unit: u64, step: u64, held: u64) -> Option<Self> {
        let in_hand = (parallel_readers() + FREE_BUFFERS) as u64 * held;
        let kept = bytes - in_hand.min(bytes / 4);
        let pieces = kept / (unit + OVERHEAD);
        if pieces == 0 {
            return None;
        }
        let options = OptionsBuilder::new()
            .weight_capacity(kept)
            .estimated_items_capacity(usize::try_from(pieces).ok()?)
            .hot_allocation(HOT_SHARE)
            .build();
        let (hashes, lifecycle) = (RandomState::new(), DefaultLifecycle::default());
        Some(Self {
            kept: Cache::with_options(options.ok()?, ByBytes, hashes, lifecycle),
            account: Arc::default(),
            size: bytes,
            near: (NEAR_BYTES / unit.max(1)).max(NEAR_PIECES) * step,
            fronts: [const { AtomicU64::new(0) }; FRONTS],
            unpacked: AtomicU64::new(0),
        })
    }

    /// Returns a buffer to fill.
    pub(super) fn buffer(&self, len: usize) -> Buffer {
        self.account.take(len)
    }

    /// Returns a buffer with a copy of a few bytes.
    pub(super) fn copy(&self, bytes: &[u8]) -> Buffer {
        self.account.copy(bytes)
    }

    /// Returns the entry `key`, if cached. `goes_on` is true if the previous read ended where
    /// this entry starts.
    pub(super) fn find(&self, key: u64, goes_on: bool) -> Option<Arc<Unpacked<M>>> {
        match goes_on || self.is_passed(key) {
            true => self.kept.peek(&key),
            false => self.kept.get(&key),
        }
    }

    /// Returns true if the entry is cached.
    pub(super) fn has(&self, key: u64) -> bool {
        self.kept.contains_key(&key)
    }

    /// Returns true if a scan is just passing `key`.
    fn is_passed(&self, key: u64) -> bool {
        let passes = |front: &AtomicU64| {
            let ahead = front.load(Ordering::Relaxed).checked_sub(key);
            ahead.is_some_and(|ahead| ahead <= self.near)
        };
        self.fronts.iter().any(passes)
    }

    /// Returns the entry `key`, calling `unpack` if it is not cached. After a failure nothing
    /// is cached, and threads that waited for it try again.
    pub(super) fn find_or<E>(
        &self,
        key: u64,
        unpack: impl FnOnce() -> Result<Unpacked<M>, E>,
    ) -> Result<Arc<Unpacked<M>>, E> {
        let guard = match self.kept.get_value_or_guard(&key, None) {
            GuardResult::Value(found) => return Ok(found),
            GuardResult::Guard(guard) => Some(guard),
            GuardResult::Timeout => None,
        };
        let made = Arc::new(unpack()?);
        self.advance(key);
        if let Some(guard) = guard {
            // An entry that is too large is returned but not cached.
            let _ = guard.insert(Arc::clone(&made));
        }
        Ok(made)
    }

    /// Records that `key` was decompressed: the nearest scan position moves, or a new one
    /// starts.
    fn advance(&self, key: u64) {
        let number = self.unpacked.fetch_add(1, Ordering::Relaxed);
        let is_near = |front: &&AtomicU64| front.load(Ordering::Relaxed).abs_diff(key) <= self.near;
        let known = self.fronts.iter().find(is_near);
        let front = known.or(self.fronts.get(number as usize % FRONTS));
        if let Some(front) = front {
            front.store(key, Ordering::Relaxed);
        }
    }

    /// Statistics of the cache.
    pub(super) fn usage(&self) -> CacheUsage {
        CacheUsage {
            size: self.size,
            bytes: self.account.live(),
            peak_bytes: self.account.peak(),
            unpacked: self.unpacked.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: usize = 8192;

    /// A cache with room for about `pieces` entries.
    fn cache(pieces: u64) -> PageCache<u64> {
        PageCache::new(
            pieces * (UNIT as u64 + OVERHEAD),
            UNIT as u64,
            1,
            UNIT as u64,
        )
        .unwrap()
    }

    fn make(cache: &PageCache<u64>, key: u64) -> Result<Unpacked<u64>, String> {
        let buffer = cache.buffer(UNIT);
        Ok(Unpacked { meta: key, buffer })
    }

    /// Reads an entry as readers do, and returns whether it was cached.
    fn read(cache: &PageCache<u64>, key: u64, goes_on: bool) -> bool {
        if let Some(found) = cache.find(key, goes_on) {
            assert_eq!(found.meta, key);
            return true;
        }
        let made = cache.find_or(key, || make(cache, key)).unwrap();
        assert_eq!(made.meta, key);
        false
    }

    fn hits(cache: &PageCache<u64>, keys: impl Iterator<Item = u64>) -> usize {
        keys.filter(|key| read(cache, *key, false)).count()
    }

    /// A cache with 256 entries in frequent use.
    fn with_hot_pieces() -> PageCache<u64> {
        let cache = cache(1024);
        for _ in 0..4 {
            hits(&cache, (0..256).map(|n| n * 1000));
        }
        assert_eq!(hits(&cache, (0..256).map(|n| n * 1000)), 256);
        cache
    }

    #[test]
    fn scan_does_not_evict_hot_entries() {
        let cache = with_hot_pieces();
        for key in 1_000_000..1_100_000 {
            read(&cache, key, true);
        }
        let left = hits(&cache, (0..256).map(|n| n * 1000));
        assert!(left >= 250, "{left} of 256");
    }

    #[test]
    fn scan_by_several_threads_does_not_evict_hot_entries() {
        let cache = with_hot_pieces();
        // Each entry is read in four steps, as if other reads came in between.
        for key in 1_000_000..1_100_000_u64 {
            for back in 0..4 {
                read(&cache, key - back, false);
            }
        }
        let left = hits(&cache, (0..256).map(|n| n * 1000));
        assert!(left >= 250, "{left} of 256");
    }

    #[test]
    fn newly_hot_entries_evict_formerly_hot_ones() {
        let cache = with_hot_pieces();
        let (mut number, mut found) = (1_u64, 0);
        for _ in 0..20 {
            found = 0;
            for _ in 0..700 {
                // Knuth's MMIX.
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let key = 5_000_000 + (number >> 33) % 700 * 1000;
                found += usize::from(read(&cache, key, false));
            }
        }
        assert!(found > 650, "{found} of 700");
    }

    #[test]
    fn failed_entry_is_not_cached_and_can_be_retried() {
        let cache = cache(64);
        for _ in 0..3 {
            let failed = cache.find_or(1, || Err::<Unpacked<u64>, _>("damaged"));
            assert_eq!(failed.err(), Some("damaged"));
            assert!(cache.find(1, false).is_none());
        }
        assert_eq!(cache.usage().unpacked, 0);
        assert!(!read(&cache, 1, false));
        assert!(read(&cache, 1, false));
        assert_eq!(cache.usage().unpacked, 1);
    }

    #[test]
    fn memory_is_counted_until_the_last_reference_is_dropped() {
        let cache = cache(64);
        read(&cache, 1, false);
        let held = cache.find(1, false).unwrap();
        for key in 2..10_000 {
            read(&cache, key, false);
        }
        let usage = cache.usage();
        assert!(usage.peak_bytes <= usage.size, "{usage:?}");
        let account = Arc::clone(&cache.account);
        drop(cache);
        assert_eq!(account.live(), UNIT as u64);
        drop(held);
        assert_eq!(account.live(), 0);
    }

    #[test]
    fn large_buffers_are_reused_across_changing_sizes() {
        let account = Arc::new(Account::default());
        for size in 1..20 {
            drop(account.take(size << 17));
        }
        let free: u64 = (16..20).map(|size| size << 17).sum();
        assert_eq!(account.live(), free);
        let buffer = account.take(19 << 17);
        assert_eq!((account.live(), buffer.bytes.len()), (free, 19 << 17));
    }
}
