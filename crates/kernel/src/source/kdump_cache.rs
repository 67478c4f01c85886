//! The cache of a kdump-compressed dump.

use super::CacheUsage;
use super::cache::PageCache;

/// Fraction of the cache's memory that one reader may hold.
const SHARE_IN_HAND: u64 = 128;
/// Pages read at once.
const MAX_PAGES: u64 = 64;

/// The cache of a kdump-compressed dump, keyed by page frame. A page that is read alone is
/// decompressed alone.
pub(super) struct KdumpCache {
    pub(super) pages: PageCache<()>,
    pub(super) page_shift: u32,
    /// Maximum number of pages read at once.
    pub(super) most: usize,
}

impl KdumpCache {
    pub(super) fn new(bytes: u64, page_shift: u32) -> Option<Self> {
        let most = ((bytes / SHARE_IN_HAND) >> page_shift).clamp(1, MAX_PAGES);
        Some(Self {
            pages: PageCache::new(bytes, 1 << page_shift, 1, most << page_shift)?,
            page_shift,
            most: most as usize,
        })
    }

    pub(super) fn usage(&self) -> CacheUsage {
        self.pages.usage()
    }
}
