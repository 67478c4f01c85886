//! What every page frame is used for, also those that no dump level leaves out.

use super::{PageClass, PageLayout, PageType, Wanted, is};

/// All that a dump level can leave out: the class is wanted for its own sake.
const ALL: Wanted = Wanted {
    cache: true,
    cache_private: true,
    user: true,
    free: true,
};

/// What a page frame is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageKind {
    /// Of a class that dump levels know.
    Class(PageClass),
    /// Of a slab: small objects of the kernel.
    Slab,
    /// A page table of a process.
    PageTable,
    /// Never given to the page allocator: the kernel's image, struct pages, firmware.
    Reserved,
    /// Of the kernel for something else, or on the way from one use to another.
    Kernel,
}

/// Bits that VMCOREINFO does not tell; types (BTF) do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindBits {
    /// PG_reserved's number in page->flags.
    pub reserved: Option<u32>,
    /// The `_mapcount` of a page table: PAGE_TYPE value as VMCOREINFO gives those
    /// of other types.
    pub page_table: Option<i64>,
}

/// Tells the use of page frames, one after the other.
#[derive(Clone, Debug)]
pub struct PageKinds<'a> {
    layout: &'a PageLayout,
    reserved: u64,
    page_table: Option<PageType>,
}

/// What struct pages of a compound page leave for those behind them: its use, and
/// the page frame behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// The use of the frames.
    pub kind: PageKind,
    /// The page frame behind the last of them.
    pub end: u64,
    /// Whether each of them need not be looked at: one verdict is about all.
    pub decided: bool,
}

impl<'a> PageKinds<'a> {
    /// Struct pages of this layout, with what else is known of them.
    pub fn new(layout: &'a PageLayout, bits: KindBits) -> Self {
        let reserved = bits.reserved.and_then(|bit| 1_u64.checked_shl(bit));
        Self {
            layout,
            reserved: reserved.unwrap_or(0),
            page_table: bits.page_table.map(PageType::new),
        }
    }

    /// The use of page frame `frame` by its struct page and `second`, the one
    /// behind it (empty if it is not there), and up to where that reaches. `before`
    /// is what was said of the frame before.
    pub fn of(&self, frame: u64, page: &[u8], second: &[u8], before: Option<Covered>) -> Covered {
        let layout = self.layout;
        let alone = |kind| Covered {
            kind,
            end: frame.saturating_add(1),
            decided: true,
        };
        if layout.is_tail(page) {
            // Its head has no class, or had said all about it.
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

    /// `page->mapping` of a page of the page cache: its file's struct address_space.
    pub fn mapping(&self, page: &[u8]) -> Option<u64> {
        let mapping = self.layout.u64(page, self.layout.mapping);
        // The lowest bits are flags (PAGE_MAPPING_FLAGS).
        Some(mapping).filter(|mapping| *mapping != 0 && mapping & 3 == 0)
    }
}
