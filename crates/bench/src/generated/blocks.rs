//! The use of each block of memory.

use super::hash::mix;
use super::layout::{Layout, STATIC_END};

/// Page frames per block: the largest order of the buddy system.
pub(super) const BLOCK_FRAMES: u64 = 1 << 10;
/// One in this many page cache pages has private data.
const PRIVATE_EVERY: u64 = 8;
/// Orders of free blocks. Large ones are more frequent.
const FREE_ORDERS: [u32; 8] = [10, 10, 10, 10, 9, 7, 4, 0];
/// Orders of slabs.
const SLAB_ORDERS: [u32; 4] = [0, 1, 3, 3];

/// Shares of memory by use, in thousandths. The rest belongs to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixture {
    /// Free memory.
    pub free: u64,
    /// Huge pages of hugetlbfs, 2 MiB each.
    pub hugetlb: u64,
    /// Transparent huge pages.
    pub transparent: u64,
    /// Anonymous pages of 4 KiB.
    pub anonymous: u64,
    /// Page cache in single pages; some have private data.
    pub cache: u64,
    /// Page cache in large folios.
    pub large_cache: u64,
    /// Slab.
    pub slab: u64,
}

impl Mixture {
    /// A database machine: mostly huge pages.
    pub const DATABASE: Self = Self {
        free: 200,
        hugetlb: 400,
        transparent: 100,
        anonymous: 100,
        cache: 90,
        large_cache: 60,
        slab: 30,
    };

    /// A database machine whose kernel itself uses little: 4 thousandths of memory.
    pub const LEAN_DATABASE: Self = Self {
        free: 200,
        hugetlb: 500,
        transparent: 100,
        anonymous: 100,
        cache: 60,
        large_cache: 36,
        slab: 2,
    };

    /// A machine that runs next to nothing.
    pub const IDLE: Self = Self {
        free: 940,
        hugetlb: 0,
        transparent: 10,
        anonymous: 10,
        cache: 20,
        large_cache: 10,
        slab: 5,
    };
}

/// Class of a page frame, as a dump level distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameClass {
    /// Kernel memory: always kept.
    Kernel,
    /// Free.
    Free,
    /// Page cache without private data.
    Cache,
    /// Page cache with private data.
    CachePrivate,
    /// User memory.
    User,
}

/// Use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// The kernel's image and tables.
    Static,
    /// Struct pages.
    MemMap,
    /// Single pages of the kernel; some are page tables.
    Kernel,
    /// Free blocks of the given order.
    Free(u32),
    Hugetlb,
    Transparent,
    Anonymous,
    /// Single pages of page cache. Those `n` after a multiple of [`PRIVATE_EVERY`] have private
    /// data.
    Cache(u64),
    LargeCache,
    /// Slabs of the given order.
    Slab(u32),
}

impl BlockKind {
    /// Returns the kind of the block that begins with `frame`.
    pub(super) fn of(layout: &Layout, mixture: &Mixture, seed: u64, frame: u64) -> Self {
        if frame < STATIC_END {
            return Self::Static;
        }
        if layout.mem_map().contains(&frame) {
            return Self::MemMap;
        }
        let hash = mix(seed ^ (frame / BLOCK_FRAMES));
        let mut left = hash % 1000;
        let mut is = |share: u64| {
            let found = left < share;
            left = left.wrapping_sub(share);
            found
        };
        let choice = (hash >> 32) as usize;
        if is(mixture.free) {
            Self::Free(FREE_ORDERS[choice % FREE_ORDERS.len()])
        } else if is(mixture.hugetlb) {
            Self::Hugetlb
        } else if is(mixture.transparent) {
            Self::Transparent
        } else if is(mixture.anonymous) {
            Self::Anonymous
        } else if is(mixture.cache) {
            Self::Cache(choice as u64 % PRIVATE_EVERY)
        } else if is(mixture.large_cache) {
            Self::LargeCache
        } else if is(mixture.slab) {
            Self::Slab(SLAB_ORDERS[choice % SLAB_ORDERS.len()])
        } else {
            Self::Kernel
        }
    }

    /// Returns the class of a page frame in a block of this kind.
    #[inline]
    pub(super) fn class(self, frame: u64) -> FrameClass {
        match self {
            Self::Static | Self::MemMap | Self::Kernel | Self::Slab(_) => FrameClass::Kernel,
            Self::Free(_) => FrameClass::Free,
            Self::Hugetlb | Self::Transparent | Self::Anonymous => FrameClass::User,
            Self::Cache(private) if frame % PRIVATE_EVERY == private => FrameClass::CachePrivate,
            Self::Cache(_) | Self::LargeCache => FrameClass::Cache,
        }
    }

    /// True if the block contains nothing that a dump of level 31 keeps.
    pub(super) fn is_left_out(self) -> bool {
        self.class(0) != FrameClass::Kernel
    }

    /// Adds the page frames of one block to `counts`.
    pub(super) fn count(self, counts: &mut ClassCounts) {
        let private = BLOCK_FRAMES / PRIVATE_EVERY;
        match self.class(0) {
            FrameClass::Kernel => counts.kernel += BLOCK_FRAMES,
            FrameClass::Free => counts.free += BLOCK_FRAMES,
            FrameClass::User => counts.user += BLOCK_FRAMES,
            FrameClass::Cache | FrameClass::CachePrivate if self == Self::LargeCache => {
                counts.cache += BLOCK_FRAMES;
            }
            FrameClass::Cache | FrameClass::CachePrivate => {
                counts.cache_private += private;
                counts.cache += BLOCK_FRAMES - private;
            }
        }
    }
}

/// Number of page frames by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// [`FrameClass::Kernel`].
    pub kernel: u64,
    /// [`FrameClass::Free`].
    pub free: u64,
    /// [`FrameClass::Cache`].
    pub cache: u64,
    /// [`FrameClass::CachePrivate`].
    pub cache_private: u64,
    /// [`FrameClass::User`].
    pub user: u64,
}
