//! Classifies page frames by their struct pages.
//!
//! VMCOREINFO lists the flags and fields that the kernel has; others are not used. Nothing
//! depends on version numbers, since distributions backport changes.

mod block;
mod kind;
mod page_type;

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use crate::error::KernelError;

pub(crate) use block::{BLOCK_PAGES, BlockClasses, BlockClassifier};
pub use kind::{Covered, KindBits, PageKind, PageKinds};
use page_type::{PageType, is};

/// PAGE_MAPPING_ANON (include/linux/page-flags.h): anonymous memory.
const MAPPING_ANON: u64 = 1;
/// Tail bit of compound_head or compound_info.
const TAIL: u64 = 1;
/// Orders from here on are impossible.
const MAX_ORDER: u64 = 64;

/// The class of an excluded page frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageClass {
    /// Page cache without private data.
    Cache,
    /// Page cache with private data, such as buffer heads.
    CachePrivate,
    /// Anonymous or hugetlb memory of user processes.
    User,
    /// Free memory.
    Free,
    /// Memory that a confidential guest has not accepted yet.
    Unaccepted,
    /// Poisoned memory, which must not be touched.
    HwPoison,
    /// Memory removed by a balloon driver or hotplug.
    Offline,
}

/// How hugetlb pages are distinguished from other compound pages.
#[derive(Clone, Copy, Debug)]
enum Hugetlb {
    /// By the page type of the head, since 6.9 (commit d99e3140a4d3).
    Type(PageType),
    /// By a flag of the second struct page, 6.6 to 6.8.
    SecondFlag(u32),
    /// By the destructor number in the second struct page, 4.4 to 6.5.
    Destructor { offset: usize, value: u64 },
    /// Unknown: no key exists.
    Unknown,
}

/// Location of the order of a compound page in its second struct page.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// The low byte of flags, since 6.6 (commit ebc1baf5c9b4).
    FlagsLowByte,
    /// A separate byte.
    Byte(usize),
    /// Unknown: no key exists.
    Unknown,
}

/// The layout of struct page in one kernel.
#[derive(Clone, Debug)]
pub struct PageLayout {
    /// Size of a struct page, in bytes.
    pub size: usize,
    endian: Endian,
    flags: usize,
    mapping: usize,
    mapcount: usize,
    private: usize,
    compound_head: Option<usize>,
    order: Order,
    hugetlb: Hugetlb,
    lru: u64,
    private_flag: u64,
    swap_cache: u64,
    swap_backed: Option<u64>,
    hw_poison: u64,
    head_mask: u64,
    slab_flag: u64,
    slab: Option<PageType>,
    buddy: Option<PageType>,
    offline: Option<PageType>,
    unaccepted: Option<PageType>,
    /// LENGTH(zone.free_area): orders of free blocks are below it.
    free_orders: u64,
}

/// A verdict on a page frame and those that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The class for exclusion; `None` keeps the one frame.
    pub class: Option<PageClass>,
    /// log2 of the number of frames that the verdict covers.
    pub order: u32,
}

impl Verdict {
    const KEEP: Self = Self {
        class: None,
        order: 0,
    };

    /// The frame after the last one covered by a verdict on `frame`.
    #[inline]
    pub fn end(&self, frame: u64) -> u64 {
        frame.saturating_add(1_u64.checked_shl(self.order).unwrap_or(u64::MAX))
    }
}

/// The classes that a dump level excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExcludedClasses {
    /// Page cache without private data.
    pub cache: bool,
    /// All page cache.
    pub cache_private: bool,
    /// User memory.
    pub user: bool,
    /// Free memory.
    pub free: bool,
}

impl PageLayout {
    /// Determines the layout from VMCOREINFO.
    pub fn new(info: &Vmcoreinfo, endian: Endian) -> Result<Self, KernelError> {
        let needed = |key: String| KernelError::missing(key, "tell the classes of pages");
        let size = info
            .size("page")
            .ok_or_else(|| needed("SIZE(page)".into()))?;
        let field = |name: &str, width: usize| {
            let offset = info.offset(name)?;
            (offset.checked_add(width)? <= size).then_some(offset)
        };
        let needed_field = |name: &str, width| {
            field(name, width).ok_or_else(|| needed(format!("OFFSET({name}) below SIZE(page)")))
        };
        if !(32..=4096).contains(&size) {
            return Err(KernelError::Implausible {
                what: "SIZE(page)".into(),
                found: size.to_string(),
                expected: "32 to 4096",
            });
        }
        let bit = |name: &str| {
            info.number(name)
                .and_then(|n| u32::try_from(n).ok())
                .and_then(|n| 1_u64.checked_shl(n))
        };
        let page_type = |name: &str| info.number(name).map(PageType::new);
        let hugetlb_type = page_type("PAGE_HUGETLB_MAPCOUNT_VALUE");
        let hugetlb_flag = info
            .number("PG_hugetlb")
            .and_then(|n| u32::try_from(n).ok());
        // The fields' names: page.* through 6.2, folio.* in 6.3 to 6.5. Those of folio are in
        // the second struct page, but counted from the first.
        let first_of = |names: &[&str]| {
            let offset = names.iter().find_map(|name| info.offset(name))?;
            (offset < 2 * size).then_some(offset % size)
        };
        let order = first_of(&["page.compound_order", "folio._folio_order"]);
        let destructor = first_of(&["page.compound_dtor", "folio._folio_dtor"]);
        let (order, hugetlb) = match (hugetlb_type, hugetlb_flag) {
            (Some(page_type), _) => (Order::FlagsLowByte, Hugetlb::Type(page_type)),
            (None, Some(flag)) if flag < 64 => (Order::FlagsLowByte, Hugetlb::SecondFlag(flag)),
            _ => (
                order.map_or(Order::Unknown, Order::Byte),
                match (destructor, info.number("HUGETLB_PAGE_DTOR")) {
                    (Some(offset), Some(value)) => Hugetlb::Destructor {
                        offset,
                        value: value.cast_unsigned(),
                    },
                    _ => Hugetlb::Unknown,
                },
            ),
        };
        Ok(Self {
            size,
            endian,
            flags: needed_field("page.flags", 8)?,
            mapping: needed_field("page.mapping", 8)?,
            mapcount: needed_field("page._mapcount", 4)?,
            private: needed_field("page.private", 8)?,
            compound_head: field("page.compound_head", 8)
                .or_else(|| field("page.compound_info", 8)),
            order,
            hugetlb,
            lru: bit("PG_lru").ok_or_else(|| needed("NUMBER(PG_lru)".into()))?,
            private_flag: bit("PG_private").ok_or_else(|| needed("NUMBER(PG_private)".into()))?,
            swap_cache: bit("PG_swapcache").unwrap_or(0),
            swap_backed: bit("PG_swapbacked"),
            hw_poison: bit("PG_hwpoison").unwrap_or(0),
            head_mask: info.number("PG_head_mask").unwrap_or(0).cast_unsigned(),
            slab_flag: bit("PG_slab").unwrap_or(0),
            slab: page_type("PAGE_SLAB_MAPCOUNT_VALUE"),
            buddy: page_type("PAGE_BUDDY_MAPCOUNT_VALUE"),
            offline: page_type("PAGE_OFFLINE_MAPCOUNT_VALUE"),
            unaccepted: page_type("PAGE_UNACCEPTED_MAPCOUNT_VALUE"),
            free_orders: info
                .length("zone.free_area")
                .map_or(MAX_ORDER, |n| n as u64),
        })
    }

    /// Classifies page frame `frame` by its struct page and `second`, the following one, which
    /// a compound page also uses.
    ///
    /// The order of tests is makedumpfile's (__exclude_unnecessary_pages), so that a page of
    /// two classes counts the same. A tail is kept here, since its head was already classified.
    #[inline]
    pub fn classify(
        &self,
        frame: u64,
        page: &[u8],
        second: &[u8],
        wanted: ExcludedClasses,
    ) -> Verdict {
        if self.is_tail(page) {
            return Verdict::KEEP;
        }
        let flags = self.u64(page, self.flags);
        let mapcount = self.u32(page, self.mapcount);
        let slab = flags & self.slab_flag != 0 || is(self.slab, mapcount);
        if wanted.free {
            if !slab && is(self.buddy, mapcount) {
                let order = self.u64(page, self.private);
                if order >= self.free_orders.min(MAX_ORDER) {
                    return Verdict::KEEP;
                }
                return Verdict {
                    class: Some(PageClass::Free),
                    order: order as u32,
                };
            }
            if is(self.unaccepted, mapcount) {
                let order = self.free_orders.clamp(1, MAX_ORDER) - 1;
                return Verdict {
                    class: Some(PageClass::Unaccepted),
                    order: order as u32,
                };
            }
        }
        let compound = flags & self.head_mask != 0 && !second.is_empty();
        let order = if compound {
            self.compound_order(frame, second)
        } else {
            0
        };
        let class = self.class_in_use(flags, mapcount, slab, page, compound, second, wanted);
        Verdict {
            class,
            order: if class.is_some() { order } else { 0 },
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all are parts of one struct page"
    )]
    #[inline]
    fn class_in_use(
        &self,
        flags: u64,
        mapcount: u32,
        slab: bool,
        page: &[u8],
        compound: bool,
        second: &[u8],
        wanted: ExcludedClasses,
    ) -> Option<PageClass> {
        let anonymous = !slab && self.u64(page, self.mapping) & MAPPING_ANON != 0;
        // PG_swapcache counts only with PG_swapbacked since that flag exists (commit
        // 6326fec1122c, 4.10).
        let swap_cache = flags & self.swap_cache != 0
            && self.swap_backed.is_none_or(|backed| flags & backed != 0);
        if !anonymous && (flags & self.lru != 0 || swap_cache) {
            let private = flags & self.private_flag != 0;
            if wanted.cache && !private {
                return Some(PageClass::Cache);
            }
            if wanted.cache_private {
                return Some(if private {
                    PageClass::CachePrivate
                } else {
                    PageClass::Cache
                });
            }
        }
        if wanted.user && (anonymous || (compound && self.is_hugetlb(mapcount, second))) {
            return Some(PageClass::User);
        }
        if flags & self.hw_poison != 0 {
            return Some(PageClass::HwPoison);
        }
        (!slab && is(self.offline, mapcount)).then_some(PageClass::Offline)
    }

    /// Returns true for the head of a compound page.
    #[inline]
    pub fn is_head(&self, page: &[u8]) -> bool {
        self.u64(page, self.flags) & self.head_mask != 0
    }

    /// Returns true for a tail of a compound page.
    #[inline]
    pub fn is_tail(&self, page: &[u8]) -> bool {
        self.compound_head
            .is_some_and(|offset| self.u64(page, offset) & TAIL != 0)
    }

    /// Returns log2 of the number of page frames of the compound page whose head is `frame`, by the
    /// struct page behind the head's.
    pub(crate) fn compound_order(&self, frame: u64, second: &[u8]) -> u32 {
        // In a running kernel the two struct pages may be of different moments, and the second
        // may belong to another page by now.
        if self.compound_head.is_some() && !self.is_tail(second) {
            return 0;
        }
        let order = match self.order {
            Order::FlagsLowByte => self.u64(second, self.flags) & 0xff,
            Order::Byte(offset) => second.get(offset).copied().map_or(0, u64::from),
            Order::Unknown => 0,
        };
        // A compound page is aligned to its size; otherwise the order is invalid.
        if order >= MAX_ORDER || frame & ((1 << order) - 1) != 0 {
            0
        } else {
            order as u32
        }
    }

    fn is_hugetlb(&self, mapcount: u32, second: &[u8]) -> bool {
        match self.hugetlb {
            Hugetlb::Type(page_type) => page_type.matches(mapcount),
            Hugetlb::SecondFlag(bit) => self.u64(second, self.flags) >> bit & 1 == 1,
            Hugetlb::Destructor { offset, value } => second
                .get(offset)
                .is_some_and(|found| u64::from(*found) == value),
            Hugetlb::Unknown => false,
        }
    }

    #[inline]
    fn u64(&self, page: &[u8], offset: usize) -> u64 {
        self.endian.u64(page, offset).unwrap_or(0)
    }

    #[inline]
    fn u32(&self, page: &[u8], offset: usize) -> u32 {
        self.endian.u32(page, offset).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    /// Flags at 0, compound_head at 8, mapping at 24: as in Linux 6.12.
    const INFO: &str = "SIZE(page)=64\nOFFSET(page.flags)=0\nOFFSET(page._mapcount)=48\n\
        OFFSET(page.mapping)=24\nOFFSET(page.private)=40\nOFFSET(page.compound_head)=8\n\
        NUMBER(PG_lru)=5\nNUMBER(PG_private)=13\nNUMBER(PG_head_mask)=64\n\
        NUMBER(PAGE_HUGETLB_MAPCOUNT_VALUE)=-201326592\n";

    #[test]
    fn order_is_used_only_in_a_tail() {
        let info = Vmcoreinfo::parse(INFO.as_bytes(), 0).unwrap();
        let layout = PageLayout::new(&info, Endian::Little).unwrap();
        let wanted = ExcludedClasses {
            cache: true,
            cache_private: true,
            user: true,
            free: true,
        };
        let (mut head, mut second) = ([0_u8; 64], [0_u8; 64]);
        head[0] = 1 << 6 | 1 << 5;
        // In a page of its own these bits would mean locked and uptodate.
        second[0] = 9;
        let alone = layout.classify(0x200, &head, &second, wanted);
        assert_eq!(alone.class, Some(PageClass::Cache));
        assert_eq!(alone.end(0x200), 0x201);
        second[8] = 1;
        let compound = layout.classify(0x200, &head, &second, wanted);
        assert_eq!(compound.end(0x200), 0x400);
    }
}
