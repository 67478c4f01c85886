//! Classifies 64 struct pages at once.
//!
//! Nearly all struct pages describe a single page frame of one of three classes, or one that is
//! kept. Three fields decide that without a branch, so that the scan runs at memory speed. All
//! others are special and go through [`PageLayout::classify`].

use bigiron_format::bytes::Endian;

use super::{ExcludedClasses, PageLayout, PageType};

/// Struct pages in a block: one per bit of a word.
pub(crate) const BLOCK_PAGES: usize = 64;
/// The required size of a struct page, which all distributions' kernels have.
const STRUCT_BYTES: usize = 64;
/// Words in a struct page.
const WORDS: usize = STRUCT_BYTES / 8;

/// Bits of flags and other fields, combined in one 32-bit word.
const ANON: u32 = 1 << 31;
const TAIL: u32 = 1 << 30;
/// Flags from this bit on do not fit into that word. No kernel has that many.
const FLAGS_END: u64 = 1 << 30;

/// The classes of a block, one bit per struct page, the first one lowest. The words are
/// disjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockClasses {
    /// Excluded page cache without private data.
    pub cache: u64,
    /// Excluded page cache with private data.
    pub cache_private: u64,
    /// Excluded user memory.
    pub user: u64,
    /// Pages whose verdict may cover other pages, or is rare.
    pub special: u64,
}

/// A mask of a word and the value expected under it.
#[derive(Clone, Copy, Debug)]
struct Test {
    mask: u32,
    value: u32,
}

impl Test {
    const NEVER: Self = Self { mask: 0, value: 1 };

    fn page_type(page_type: Option<PageType>) -> Self {
        page_type.map_or(Self::NEVER, |page_type| {
            let (mask, value) = page_type.mask_and_value();
            Self { mask, value }
        })
    }

    /// All ones if `word` matches.
    #[inline]
    fn passes(self, word: u32) -> u32 {
        ones(word & self.mask == self.value)
    }
}

#[inline]
fn ones(condition: bool) -> u32 {
    u32::from(condition).wrapping_neg()
}

/// A [`PageLayout`] and a [`ExcludedClasses`], prepared for many struct pages.
#[derive(Clone, Debug)]
pub(crate) struct BlockClassifier {
    endian: Endian,
    flags_word: usize,
    mapping_word: usize,
    mapcount_word: usize,
    mapcount_shift: u32,
    head_word: usize,
    tail_mask: u64,
    flags_used: u32,
    lru: u32,
    swap_cache: Test,
    private: u32,
    slab_flag: u32,
    special_flags: u32,
    slab: Test,
    buddy: Test,
    unaccepted: Test,
    offline: Test,
    cache_wanted: u32,
    cache_private_wanted: u32,
    user_wanted: u32,
}

impl BlockClassifier {
    /// Returns `None` if the layout of struct pages does not allow blocks.
    pub(crate) fn new(layout: &PageLayout, wanted: ExcludedClasses) -> Option<Self> {
        if layout.size != STRUCT_BYTES {
            return None;
        }
        let word = |offset: usize| {
            (offset.is_multiple_of(8) && offset < STRUCT_BYTES).then_some(offset / 8)
        };
        let special_flags = layout.head_mask | layout.hw_poison;
        let swap_cache = layout.swap_cache | layout.swap_backed.unwrap_or(0);
        let used = layout.lru | layout.private_flag | layout.slab_flag | swap_cache | special_flags;
        if used >= FLAGS_END || !layout.mapcount.is_multiple_of(4) {
            return None;
        }
        let free = |page_type| Test::page_type(if wanted.free { page_type } else { None });
        let mapcount_at = layout.mapcount % 8;
        Some(Self {
            endian: layout.endian,
            flags_word: word(layout.flags)?,
            mapping_word: word(layout.mapping)?,
            mapcount_word: word(layout.mapcount / 8 * 8)?,
            mapcount_shift: 8 * match layout.endian {
                Endian::Little => mapcount_at,
                Endian::Big => 4 - mapcount_at,
            } as u32,
            head_word: word(layout.compound_head.unwrap_or(0))?,
            tail_mask: layout.compound_head.map_or(0, |_| super::TAIL),
            flags_used: used as u32,
            lru: layout.lru as u32,
            swap_cache: match layout.swap_cache {
                0 => Test::NEVER,
                _ => Test {
                    mask: swap_cache as u32,
                    value: swap_cache as u32,
                },
            },
            private: layout.private_flag as u32,
            slab_flag: layout.slab_flag as u32,
            special_flags: special_flags as u32,
            slab: Test::page_type(layout.slab),
            buddy: free(layout.buddy),
            unaccepted: free(layout.unaccepted),
            offline: Test::page_type(layout.offline),
            cache_wanted: ones(wanted.cache || wanted.cache_private),
            cache_private_wanted: ones(wanted.cache_private),
            user_wanted: ones(wanted.user),
        })
    }

    /// Classifies the block at the start of `bytes`; returns `None` if `bytes` is shorter than
    /// a block.
    #[inline]
    pub(crate) fn classify(&self, bytes: &[u8]) -> Option<BlockClasses> {
        match self.endian {
            Endian::Little => self.classify_words(bytes, u64::from_le_bytes),
            Endian::Big => self.classify_words(bytes, u64::from_be_bytes),
        }
    }

    #[inline]
    fn classify_words(
        &self,
        bytes: &[u8],
        decode: impl Fn([u8; 8]) -> u64,
    ) -> Option<BlockClasses> {
        let bytes = bytes.first_chunk::<{ BLOCK_PAGES * STRUCT_BYTES }>()?;
        let structs = bytes.as_chunks::<8>().0.as_chunks::<WORDS>().0;
        let mut flags = [0_u32; BLOCK_PAGES];
        let mut mapcounts = [0_u32; BLOCK_PAGES];
        for ((flags, mapcount), page) in flags.iter_mut().zip(&mut mapcounts).zip(structs) {
            // The remainder never changes an index, but proves to the compiler that it is in
            // bounds.
            let word = |index: usize| decode(page[index % WORDS]);
            prefetch_behind(page);
            *flags = word(self.flags_word) as u32 & self.flags_used
                | ((word(self.mapping_word) & super::MAPPING_ANON) as u32) << ANON.trailing_zeros()
                | ((word(self.head_word) & self.tail_mask) as u32) << TAIL.trailing_zeros();
            *mapcount = (word(self.mapcount_word) >> self.mapcount_shift) as u32;
        }
        let mut codes = [0_u8; BLOCK_PAGES];
        for ((code, flags), mapcount) in codes.iter_mut().zip(&flags).zip(&mapcounts) {
            *code = self.code(*flags, *mapcount);
        }
        Some(BlockClasses {
            cache: gather(&codes, CACHE),
            cache_private: gather(&codes, CACHE_PRIVATE),
            user: gather(&codes, USER),
            special: gather(&codes, SPECIAL),
        })
    }

    /// The class of one page: [`PageLayout::classify`] without branches.
    #[inline]
    fn code(&self, flags: u32, mapcount: u32) -> u8 {
        let has = |mask: u32| ones(flags & mask != 0);
        let in_slab = has(self.slab_flag) | self.slab.passes(mapcount);
        let anonymous = has(ANON) & !in_slab;
        let in_cache = !anonymous & (has(self.lru) | self.swap_cache.passes(flags));
        let private = has(self.private);
        let special = has(self.special_flags)
            | self.unaccepted.passes(mapcount)
            | (!in_slab & (self.buddy.passes(mapcount) | self.offline.passes(mapcount)));
        let alone = !special & !has(TAIL);
        let cache = alone & in_cache & !private & self.cache_wanted;
        let cache_private = alone & in_cache & private & self.cache_private_wanted;
        let user = alone & anonymous & self.user_wanted;
        (cache & (1 << CACHE)
            | cache_private & (1 << CACHE_PRIVATE)
            | user & (1 << USER)
            | special & !has(TAIL) & (1 << SPECIAL)) as u8
    }
}

/// Prefetches the struct page one block behind `page`. The hardware prefetcher stops at page
/// boundaries, and a page is one block.
#[inline]
fn prefetch_behind(page: &[[u8; 8]; WORDS]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let next = page.as_ptr().wrapping_add(BLOCK_PAGES * WORDS);
        // SAFETY: a prefetch is a hint; it loads nothing visible to the program and does not
        // fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(next.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = page;
}

/// Bits of a page's code.
const CACHE: u32 = 0;
const CACHE_PRIVATE: u32 = 1;
const USER: u32 = 2;
const SPECIAL: u32 = 3;

/// Gathers bit `bit` of all codes.
#[inline]
fn gather(codes: &[u8; BLOCK_PAGES], bit: u32) -> u64 {
    let eights = codes.as_chunks::<8>().0.iter().enumerate();
    eights.fold(0, |all, (index, eight)| {
        let ones = u64::from_le_bytes(*eight) >> bit & 0x0101_0101_0101_0101;
        // The product's top byte holds the lowest bits of all eight bytes.
        all | (ones.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * index)
    })
}
