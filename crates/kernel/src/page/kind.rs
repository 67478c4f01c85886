//! The use of every page frame, including those that no dump level excludes.

use super::{ExcludedClasses, PageClass, PageLayout, PageType, is};

/// Selects all classes, since the class itself is of interest.
const ALL: ExcludedClasses = ExcludedClasses {
    cache: true,
    cache_private: true,
    user: true,
    free: true,
};

/// The use of a page frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageKind {
    /// A class of the dump levels.
    Class(PageClass),
    /// Slab memory: small kernel objects.
    Slab,
    /// A page table of a process.
    PageTable,
    /// Never given to the page allocator: kernel image, struct pages, firmware.
    Reserved,
    /// Other kernel memory, or a page between two uses.
    Kernel,
}

/// Facts that VMCOREINFO lacks and BTF has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindBits {
    /// Bit number of PG_reserved in page->flags.
    pub reserved: Option<u32>,
    /// `_mapcount` of a page table: a page type value like those in VMCOREINFO.
    pub page_table: Option<i64>,
}

/// Determines the use of page frames in sequence.
#[derive(Clone, Debug)]
pub struct PageKinds<'a> {
    layout: &'a PageLayout,
    reserved: u64,
    page_table: Option<PageType>,
}

/// The part of a compound page that follows: its use, and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// The use of the frames.
    pub kind: PageKind,
    /// The page frame after the last of them.
    pub end: u64,
    /// True if one verdict covers all of them, so that none needs to be read.
    pub decided: bool,
}

impl<'a> PageKinds<'a> {
    /// Creates a classifier for struct pages of this layout and further facts.
    pub fn new(layout: &'a PageLayout, bits: KindBits) -> Self {
        let reserved = bits.reserved.and_then(|bit| 1_u64.checked_shl(bit));
        Self {
            layout,
            reserved: reserved.unwrap_or(0),
            page_table: bits.page_table.map(PageType::new),
        }
    }

    /// Returns the use of page frame `frame`, by its struct page and `second`, the following
    /// one (empty if missing), and the end of the range it covers. `before` is the result for
    /// the frame before.
    pub fn of(&self, frame: u64, page: &[u8], second: &[u8], before: Option<Covered>) -> Covered {
        let layout = self.layout;
        let alone = |kind| Covered {
            kind,
            end: frame.saturating_add(1),
            decided: true,
        };
        if layout.is_tail(page) {
            // Its head has no class, or its verdict covered everything.
            return match before {
                Some(head) if head.end > frame => head,
                _ => alone(PageKind::Kernel),
            };
        }
        let verdict = layout.classify(frame, page, second, ALL);
        if let Some(class) = verdict.class {
            return Covered {
                kind: PageKind::Class(class),
                end: verdict.end(frame),
                decided: true,
            };
        }
        let kind = self.of_kernel(page);
        if !layout.is_head(page) || second.is_empty() {
            return alone(kind);
        }
        let order = layout.compound_order(frame, second);
        let frames = 1_u64.checked_shl(order).unwrap_or(1);
        Covered {
            kind,
            end: frame.saturating_add(frames),
            decided: false,
        }
    }

    fn of_kernel(&self, page: &[u8]) -> PageKind {
        let layout = self.layout;
        let flags = layout.u64(page, layout.flags);
        let mapcount = layout.u32(page, layout.mapcount);
        if flags & layout.slab_flag != 0 || is(layout.slab, mapcount) {
            PageKind::Slab
        } else if is(self.page_table, mapcount) {
            PageKind::PageTable
        } else if flags & self.reserved != 0 {
            PageKind::Reserved
        } else {
            PageKind::Kernel
        }
    }

    /// Returns `page->mapping` of a page cache page: the address of the file's struct
    /// address_space.
    pub fn mapping(&self, page: &[u8]) -> Option<u64> {
        let mapping = self.layout.u64(page, self.layout.mapping);
        // The lowest bits are flags (PAGE_MAPPING_FLAGS).
        Some(mapping).filter(|mapping| *mapping != 0 && mapping & 3 == 0)
    }
}
