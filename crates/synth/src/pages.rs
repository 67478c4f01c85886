//! `struct page`, 64 bytes, as include/linux/mm_types.h lays it out on machines of 64 bits with
//! CONFIG_MEMCG in all kernels imitated here:
//!
//! | offset | word |
//! |---|---|
//! | 0 | flags |
//! | 8, 16 | lru, or compound_head (7.1: compound_info) and, in `page[1]`, dtor and order |
//! | 24 | mapping: bit 0 anonymous, bit 1 movable, both KSM |
//! | 32 | index |
//! | 40 | private: order of a free block, swap entry, buffers |
//! | 48 | _mapcount, or the page type |
//! | 52 | _refcount |

use crate::kernels::{CompoundInfo, HeadLink};
use crate::layout::{Layout, PAGE_STRUCT};
use crate::order::ByteOrder;
use crate::spec::{Class, Run, Spec};

pub(crate) const FLAGS: u64 = 0;
pub(crate) const LRU: u64 = 8;
pub(crate) const COMPOUND: u64 = 8;
pub(crate) const DTOR: u64 = 16;
pub(crate) const ORDER: u64 = 17;
pub(crate) const MAPPING: u64 = 24;
pub(crate) const PRIVATE: u64 = 40;
pub(crate) const MAPCOUNT: u64 = 48;
pub(crate) const REFCOUNT: u64 = 52;
const INDEX: u64 = 32;

/// TAIL_MAPPING of include/linux/poison.h, on most machines of 64 bits.
const TAIL_MAPPING: u64 = 0xdead_0000_0000_0400;

/// `enum compound_dtor_id`, include/linux/mm.h up to 6.5.
pub(crate) const COMPOUND_PAGE_DTOR: u8 = 1;
pub(crate) const HUGETLB_PAGE_DTOR: u8 = 2;
pub(crate) const TRANSHUGE_PAGE_DTOR: u8 = 3;

/// The use for which a struct page is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Use<'a> {
    /// A frame that is not RAM, in a section that has some.
    Hole,
    /// RAM that the text does not name.
    Plain,
    /// RAM that the text names.
    Named(&'a Run),
}

/// Writes the struct pages of one machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageWriter<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) layout: &'a Layout,
}

impl PageWriter<'_> {
    /// Returns the struct page of one frame; `zone` and `node` go into the high flag bits.
    pub(crate) fn write(&self, pfn: u64, used: Use<'_>, zone: u64, node: u64) -> [u8; 64] {
        // Node in bits 54-63, zone in 51-53; last CPU in 30-50, all ones for none.
        let place = node << 54 | zone << 51 | 0x1f_ffff << 30;
        let mut page = Page([0; 64], self.layout.order);
        page.word(FLAGS, place);
        page.half(MAPCOUNT, u32::MAX);
        page.half(REFCOUNT, 1);
        match used {
            Use::Hole => page.word(FLAGS, place | 1 << self.spec.flags().reserved),
            Use::Plain => {}
            Use::Named(run) => {
                let head = run.head(pfn);
                let compound =
                    run.order > 0 && !matches!(run.class, Class::Free | Class::Unaccepted);
                if pfn == head {
                    self.head(&mut page, pfn, run, place, compound);
                } else if compound {
                    self.tail(&mut page, pfn - head, head, run, place);
                } else {
                    page.half(REFCOUNT, 0);
                }
            }
        }
        page.0
    }

    fn head(&self, page: &mut Page, pfn: u64, run: &Run, place: u64, compound: bool) {
        let flags = self.spec.flags();
        let types = self.spec.kernel.types;
        // Any kernel address is suitable, because only the low bits have a meaning.
        let object = self
            .layout
            .direct(self.layout.ram_base + (pfn << 7) % (1 << 30));
        let mut set = place;
        let mut flag = |bits: &[u8]| bits.iter().for_each(|bit| set |= 1 << bit);
        match run.class {
            Class::Kernel => {}
            Class::Reserved => flag(&[flags.reserved]),
            Class::PageTable => page.half(MAPCOUNT, types.table),
            Class::Free | Class::Unaccepted => {
                page.half(REFCOUNT, 0);
                page.word(LRU, object);
                page.word(LRU + 8, object);
                if run.class == Class::Free {
                    page.half(MAPCOUNT, types.buddy);
                    page.word(PRIVATE, run.bad_order.unwrap_or(u64::from(run.order)));
                } else {
                    page.half(MAPCOUNT, types.unaccepted.unwrap_or(u32::MAX));
                }
            }
            Class::Cache => {
                flag(&[flags.referenced, flags.uptodate, flags.lru]);
                page.half(REFCOUNT, 2);
                page.word(MAPPING, object);
                page.word(INDEX, pfn);
                if run.private {
                    flag(&[flags.private]);
                    page.word(PRIVATE, object + 64);
                }
            }
            Class::SwapCache => {
                flag(&[flags.uptodate, flags.swapbacked, flags.swapcache]);
                page.word(PRIVATE, pfn | 1);
            }
            Class::Anon | Class::Ksm => {
                flag(&[flags.uptodate, flags.lru, flags.swapbacked, flags.active]);
                let kind = if run.class == Class::Ksm { 3 } else { 1 };
                page.word(MAPPING, object | kind);
                page.word(INDEX, pfn);
                if !compound {
                    page.half(MAPCOUNT, 0);
                }
            }
            Class::Hugetlb => {
                flag(&[flags.uptodate]);
                // The mapping of a file: only the hugetlb mark identifies the page.
                page.word(MAPPING, object);
                page.half(MAPCOUNT, types.hugetlb.unwrap_or(u32::MAX));
            }
            Class::Slab => {
                if let Some(bit) = flags.slab {
                    flag(&[bit]);
                }
                page.half(MAPCOUNT, types.slab.unwrap_or(u32::MAX));
                page.word(LRU, object);
                page.word(MAPPING, object | u64::from(run.anon_bit));
            }
            Class::Offline => {
                page.half(MAPCOUNT, types.offline.unwrap_or(u32::MAX));
                // Balloons are movable: PAGE_MAPPING_MOVABLE.
                page.word(MAPPING, object | 2);
            }
        }
        if run.dirty {
            flag(&[flags.dirty]);
        }
        if run.hwpoison {
            flag(&[flags.hwpoison]);
        }
        if compound {
            flag(&[flags.head]);
        }
        page.word(FLAGS, set);
    }

    fn tail(&self, page: &mut Page, index: u64, head: u64, run: &Run, place: u64) {
        page.word(COMPOUND, self.link(head, run.order));
        page.word(MAPPING, TAIL_MAPPING);
        page.half(REFCOUNT, 0);
        if index != 1 {
            return;
        }
        let kernel = self.spec.kernel;
        match kernel.compound {
            CompoundInfo::PageDtorOrder | CompoundInfo::FolioDtorOrder => {
                page.0[DTOR as usize] = match run.class {
                    Class::Hugetlb => HUGETLB_PAGE_DTOR,
                    Class::Anon | Class::Cache => TRANSHUGE_PAGE_DTOR,
                    _ => COMPOUND_PAGE_DTOR,
                };
                page.0[ORDER as usize] = run.order;
            }
            CompoundInfo::FlagsByteAndFlag(_) | CompoundInfo::FlagsByteAndType => {
                let mut set = place | u64::from(run.order);
                match (kernel.compound, run.class) {
                    (CompoundInfo::FlagsByteAndFlag(hugetlb), Class::Hugetlb) => {
                        set |= 1 << hugetlb;
                    }
                    // PG_large_rmappable = PG_workingset.
                    (_, Class::Anon | Class::Cache) => set |= 1 << kernel.flags.workingset,
                    _ => {}
                }
                page.word(FLAGS, set);
                page.word(INDEX, 1 << run.order);
            }
        }
    }

    /// Returns the word at [`COMPOUND`] of a tail page.
    fn link(&self, head: u64, order: u8) -> u64 {
        match self.spec.head_link() {
            HeadLink::Pointer => self.layout.struct_page(head) | 1,
            HeadLink::InfoMask => {
                let shift = u32::from(order) + PAGE_STRUCT.ilog2();
                (u64::MAX << shift) | 1
            }
        }
    }
}

struct Page([u8; 64], ByteOrder);

impl Page {
    fn word(&mut self, offset: u64, value: u64) {
        self.0[offset as usize..][..8].copy_from_slice(&self.1.u64(value));
    }

    fn half(&mut self, offset: u64, value: u32) {
        self.0[offset as usize..][..4].copy_from_slice(&self.1.u32(value));
    }
}
