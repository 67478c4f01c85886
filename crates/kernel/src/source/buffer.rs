//! Reference-counted memory for decompressed pages that several readers hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of free buffers kept for reuse.
pub(super) const FREE_BUFFERS: usize = 4;
/// Minimum size of a buffer worth keeping; below it the allocator is as fast.
const WORTH_KEEPING: usize = 128 << 10;

/// Counts the bytes of all buffers of a cache, and keeps some free ones: fresh memory costs a
/// page fault and zeroing for each page.
#[derive(Debug, Default)]
pub(super) struct Account {
    live: AtomicU64,
    peak: AtomicU64,
    free: Mutex<Vec<Vec<u8>>>,
}

impl Account {
    /// Returns a buffer of `len` bytes with unspecified contents.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let bytes = self.reuse(len).unwrap_or_else(|| {
            self.count(len);
            vec![0; len]
        });
        Buffer {
            bytes,
            size: len,
            account: Arc::clone(self),
        }
    }

    /// Returns a copy of a few bytes.
    pub(super) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Buffer {
        self.count(bytes.len());
        Buffer {
            bytes: bytes.to_vec(),
            size: bytes.len(),
            account: Arc::clone(self),
        }
    }

    fn count(&self, len: usize) {
        let live = self.live.fetch_add(len as u64, Ordering::Relaxed) + len as u64;
        self.peak.fetch_max(live, Ordering::Relaxed);
    }

    /// Bytes of all existing buffers.
    pub(super) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Peak of that number.
    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    fn reuse(&self, len: usize) -> Option<Vec<u8>> {
        if len < WORTH_KEEPING {
            return None;
        }
        let mut free = self.lock_free();
        // Prefer the most recently freed one, which is most likely still in the CPU's cache.
        let found = free.iter().rposition(|bytes| bytes.len() == len)?;
        Some(free.remove(found))
    }

    fn give_back(&self, bytes: Vec<u8>, size: usize) {
        let mut gone = size;
        if size >= WORTH_KEEPING && bytes.len() == size {
            let mut free = self.lock_free();
            free.push(bytes);
            if free.len() <= FREE_BUFFERS {
                return;
            }
            // Evict the oldest; the sizes in use are always represented by newer ones.
            gone = free.remove(0).len();
        }
        self.live.fetch_sub(gone as u64, Ordering::Relaxed);
    }

    fn lock_free(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that returns to its pool on drop.
#[derive(Debug)]
pub(super) struct Buffer {
    /// The bytes: exactly as many as requested.
    pub(super) bytes: Vec<u8>,
    /// The bytes it is accounted for.
    size: usize,
    account: Arc<Account>,
}

impl Buffer {
    /// The bytes it takes.
    pub(super) fn size(&self) -> u64 {
        self.size as u64
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.account.give_back(bytes, self.size);
    }
}
