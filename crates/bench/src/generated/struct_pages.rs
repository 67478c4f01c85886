//! The struct pages of Linux 6.12 on x86_64, 64 bytes each
//! (include/linux/mm_types.h, include/linux/page-flags.h).

use super::blocks::{BlockKind, FrameClass};
use super::layout::{Layout, PAGE_OFFSET, PAGE_STRUCT, VMEMMAP};

const REFERENCED: u64 = 1 << 2;
const UPTODATE: u64 = 1 << 3;
const LRU: u64 = 1 << 5;
const HEAD: u64 = 1 << 6;
const ACTIVE: u64 = 1 << 8;
const LARGE_RMAPPABLE: u64 = 1 << 9;
const RESERVED: u64 = 1 << 13;
const PRIVATE: u64 = 1 << 14;
const SWAP_BACKED: u64 = 1 << 17;

/// `_mapcount` of a page that is not mapped.
const NOT_MAPPED: u64 = 0xffff_ffff;
/// `enum pagetype`, in the top byte of `page_type`.
const BUDDY: u64 = 0xf0 << 24;
const TABLE: u64 = 0xf2 << 24;
const HUGETLB: u64 = 0xf4 << 24;
const SLAB: u64 = 0xf5 << 24;

/// PAGE_MAPPING_ANON.
const ANONYMOUS: u64 = 1;
/// TAIL_MAPPING (include/linux/poison.h).
const TAIL_MAPPING: u64 = 0xdead_0000_0000_0400;
/// log2 of the number of frames of a huge page.
const HUGE_ORDER: u32 = 9;
/// log2 of the number of frames of a large folio of page cache.
const LARGE_CACHE_ORDER: u32 = 5;
/// In a block of kernel memory, one page in this many is a page table.
const TABLE_EVERY: u64 = 4;

/// The words of a struct page: flags; lru or compound_head; mapping; index; private; _mapcount
/// and _refcount; memcg_data.
type Words = [u64; 8];

const REFERENCES: u64 = 1 << 32;

/// Writes the struct pages of frames from `first` on, all in one block of
/// `kind`, into `out`.
pub(super) fn write(layout: &Layout, kind: BlockKind, first: u64, out: &mut [u8]) {
    let (node, zone) = layout.place(first);
    // Node in bits 54-63, zone in bits 51-53; last CPU in bits 30-50, all ones for none.
    let place = node << 54 | zone << 51 | 0x1f_ffff << 30;
    let plain = |frame| single(place, address(frame), 0, NOT_MAPPED | REFERENCES);
    match kind {
        BlockKind::Static | BlockKind::MemMap => each(first, out, |frame| {
            single(place | RESERVED, address(frame), 0, NOT_MAPPED | REFERENCES)
        }),
        BlockKind::Kernel => each(first, out, |frame| match frame % TABLE_EVERY {
            0 => single(place, address(frame), 0, TABLE | REFERENCES),
            _ => plain(frame),
        }),
        BlockKind::Free(order) => each(first, out, |frame| {
            if frame & ((1 << order) - 1) != 0 {
                return [place, 0, 0, 0, 0, 0, NOT_MAPPED, 0];
            }
            let list = address(frame ^ (1 << order));
            let order = u64::from(order);
            [place, list, list, 0, 0, order, BUDDY, 0]
        }),
        BlockKind::Hugetlb => compound(first, out, HUGE_ORDER, place, |frame| {
            // The mapping of a file: only the type identifies the page as hugetlb.
            let object = address(frame);
            single(place | UPTODATE, object, object, HUGETLB | REFERENCES)
        }),
        BlockKind::Transparent => compound(first, out, HUGE_ORDER, place, |frame| {
            let flags = place | UPTODATE | LRU | ACTIVE | SWAP_BACKED;
            let object = address(frame);
            single(flags, object, object | ANONYMOUS, NOT_MAPPED | REFERENCES)
        }),
        BlockKind::Anonymous => each(first, out, |frame| {
            let flags = place | UPTODATE | LRU | SWAP_BACKED;
            let object = address(frame & !63);
            single(flags, address(frame), object | ANONYMOUS, REFERENCES)
        }),
        BlockKind::Cache(_) => each(first, out, |frame| {
            let flags = place | REFERENCED | UPTODATE | LRU;
            let object = address(frame & !255);
            let mut page = single(flags, address(frame), object, NOT_MAPPED | (2 * REFERENCES));
            if kind.class(frame) == FrameClass::CachePrivate {
                page[0] |= PRIVATE;
                page[5] = address(frame) + 64;
            }
            page
        }),
        BlockKind::LargeCache => compound(first, out, LARGE_CACHE_ORDER, place, |frame| {
            let flags = place | REFERENCED | UPTODATE | LRU;
            let object = address(frame & !255);
            single(flags, address(frame), object, NOT_MAPPED | REFERENCES)
        }),
        BlockKind::Slab(order) => compound(first, out, order, place, |frame| {
            // struct slab has a pointer in the place of `mapping`. Its low bit is set here and
            // must not make the page anonymous.
            let cache = address(frame & !1023) | ANONYMOUS;
            single(place, address(frame), cache, SLAB | REFERENCES)
        }),
    }
}

/// Returns a kernel address derived from `frame`.
#[inline]
fn address(frame: u64) -> u64 {
    PAGE_OFFSET + (frame << 7)
}

#[inline]
fn single(flags: u64, list: u64, mapping: u64, mapcount: u64) -> Words {
    [flags, list, list, mapping, 0, 0, mapcount, 0]
}

#[inline]
fn each(first: u64, out: &mut [u8], page: impl Fn(u64) -> Words) {
    for (frame, out) in (first..).zip(out.as_chunks_mut::<{ PAGE_STRUCT as usize }>().0) {
        let words = page(frame);
        for (bytes, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}

/// Writes compound pages of `order` with the given heads. Since 6.6 the order is in the low
/// byte of the second struct page's flags (commit ebc1baf5c9b4).
#[inline]
fn compound(first: u64, out: &mut [u8], order: u32, place: u64, head: impl Fn(u64) -> Words) {
    let mask = (1 << order) - 1;
    each(first, out, |frame| match frame & mask {
        0 => {
            let mut page = head(frame);
            if order > 0 {
                page[0] |= HEAD;
            }
            page
        }
        index => {
            let link = (VMEMMAP + (frame & !mask) * PAGE_STRUCT) | 1;
            let mut page = [place, link, 0, TAIL_MAPPING, 0, 0, NOT_MAPPED, 0];
            if index == 1 {
                page[0] |= LARGE_RMAPPABLE | u64::from(order);
                page[4] = 1 << order;
            }
            page
        }
    });
}
