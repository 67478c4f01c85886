//! Decompressed pages that all readers of a dump share.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};

use super::buffer::{Account, Buffer, FREE_BUFFERS};
use super::{CacheUsage, parallel_readers};

/// What is kept for each piece beside its bytes: keys, links, counts.
const OVERHEAD: u64 = 192;
/// Of the room, the share for what was used again. The rest is for what came once; a
/// scan goes through that.
const HOT_SHARE: f64 = 0.9;
/// Places of the dump where it is being read, that are remembered.
const FRONTS: usize = 4;
/// What lies so many bytes before such a place, or as many pieces, was decompressed for
/// the same pass over it.
const NEAR_BYTES: u64 = 2 << 20;
const NEAR_PIECES: u64 = 8;

/// Decompressed bytes, and what is known of them.
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

/// A cache of decompressed pieces of a dump, each with what `M` says of it. Any number
/// of threads use it at once: it is divided into several, each with a lock of its own,
/// and who finds something in the same one does not wait for others who do. While one
/// thread decompresses what is missing, those that want the same wait for it, and
/// nobody else does.
///
/// Keys are in the order of the dump. Several threads that go over it together find what
/// another one has just decompressed. That is no sign that it will be wanted again, or
/// one pass over the dump would push out what is.
pub(super) struct PageCache<M> {
    kept: Cache<u64, Arc<Unpacked<M>>, ByBytes, RandomState>,
    account: Arc<Account>,
    size: u64,
    /// Keys that are near each other.
    near: u64,
    /// What was decompressed last.
    fronts: [AtomicU64; FRONTS],
    unpacked: AtomicU64,
}

impl<M> PageCache<M> {
    /// A cache that takes at most `bytes`, of pieces of about `unit` bytes, whose keys
    /// are `step` apart; `None` if that is too little for any. What readers have in hand,
    /// `held` bytes each, is in it, for as many of them as [`parallel_readers`] says.
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

    /// A buffer to be filled.
    pub(super) fn buffer(&self, len: usize) -> Buffer {
        self.account.take(len)
    }

    /// A buffer with a copy of a few bytes.
    pub(super) fn copy(&self, bytes: &[u8]) -> Buffer {
        self.account.copy(bytes)
    }

    /// The piece by the number `key`, if it is there. `goes_on`: what was read before
    /// lies directly before it in the dump.
    pub(super) fn find(&self, key: u64, goes_on: bool) -> Option<Arc<Unpacked<M>>> {
        match goes_on || self.is_passed(key) {
            true => self.kept.peek(&key),
            false => self.kept.get(&key),
        }
    }

    /// Whether the piece is there.
    pub(super) fn has(&self, key: u64) -> bool {
        self.kept.contains_key(&key)
    }

    /// Whether somebody is just going over the dump there.
    fn is_passed(&self, key: u64) -> bool {
        let passes = |front: &AtomicU64| {
            let ahead = front.load(Ordering::Relaxed).checked_sub(key);
            ahead.is_some_and(|ahead| ahead <= self.near)
        };
        self.fronts.iter().any(passes)
    }

    /// The same; where it is not there, `unpack` makes it. If that fails nothing is
    /// kept, and others who waited for it try for themselves.
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
            // What is too large for it is only not kept.
            let _ = guard.insert(Arc::clone(&made));
        }
        Ok(made)
    }

    /// Notes that `key` was decompressed: the place near it has moved, or it is a new one.
    fn advance(&self, key: u64) {
        let number = self.unpacked.fetch_add(1, Ordering::Relaxed);
        let is_near = |front: &&AtomicU64| front.load(Ordering::Relaxed).abs_diff(key) <= self.near;
        let known = self.fronts.iter().find(is_near);
        let front = known.or(self.fronts.get(number as usize % FRONTS));
        if let Some(front) = front {
            front.store(key, Ordering::Relaxed);
        }
    }

    /// What it did so far.
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

    /// Room for about so many pieces.
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

    /// Reads a piece as readers do, and says whether it was there.
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

    /// A cache with 256 pieces that were wanted again and again.
    fn with_hot_pieces() -> PageCache<u64> {
        let cache = cache(1024);
        for _ in 0..4 {
            hits(&cache, (0..256).map(|n| n * 1000));
        }
        assert_eq!(hits(&cache, (0..256).map(|n| n * 1000)), 256);
        cache
    }

    #[test]
    fn one_pass_over_the_dump_leaves_what_is_hot() {
        let cache = with_hot_pieces();
        for key in 1_000_000..1_100_000 {
            read(&cache, key, true);
        }
        let left = hits(&cache, (0..256).map(|n| n * 1000));
        assert!(left >= 250, "{left} of 256");
    }

    #[test]
    fn a_pass_of_several_threads_leaves_what_is_hot() {
        let cache = with_hot_pieces();
        // Each piece is read in four parts, as others come in between.
        for key in 1_000_000..1_100_000_u64 {
            for back in 0..4 {
                read(&cache, key - back, false);
            }
        }
        let left = hits(&cache, (0..256).map(|n| n * 1000));
        assert!(left >= 250, "{left} of 256");
    }

    #[test]
    fn what_becomes_hot_later_pushes_out_what_was() {
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
    fn what_fails_is_not_kept_and_can_be_tried_again() {
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
    fn memory_is_counted_until_the_last_one_lets_go_of_it() {
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
    fn large_buffers_are_used_again_whatever_sizes_there_were() {
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
