//! The specification of a machine, which the text describes.

use std::ops::Range;

use crate::kernels::{HeadLink, Kernel};
use crate::platform::Platform;
use crate::printk::KernelLog;

/// Size of a page table leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// A page.
    Small,
    /// Several pages, each with an entry, that are marked as one: arm64's contiguous bit,
    /// riscv64's Svnapot.
    Contiguous,
    /// The entry of the second lowest level: 2 MiB with pages of 4 KiB.
    Large,
    /// The entry of the third lowest level: 1 GiB with pages of 4 KiB.
    Giant,
}

/// Location of the VMCOREINFO text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmcoreinfoPlace {
    /// Only an ELF note.
    Note,
    /// Only a page of memory.
    Page,
    /// Both, as with a real kernel.
    Both,
    /// Neither.
    None,
}

impl VmcoreinfoPlace {
    pub(crate) fn in_note(self) -> bool {
        matches!(self, Self::Note | Self::Both)
    }

    pub(crate) fn in_page(self) -> bool {
        matches!(self, Self::Page | Self::Both)
    }
}

/// Properties of the memory's mapping and description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Number of page table levels: 4 or 5 on x86_64, 3 to 5 on s390x; 0 where the bits of
    /// virtual addresses determine it.
    pub levels: u8,
    /// Offset of the kernel's image in virtual memory (KERNELOFFSET).
    pub kaslr: u64,
    /// Physical minus virtual address of the image, as in VMCOREINFO of x86_64; `None` to let
    /// the builder choose.
    pub phys_base: Option<i64>,
    /// Start of the direct map.
    pub page_offset: Option<u64>,
    /// Start of vmemmap.
    pub vmemmap: Option<u64>,
    /// Leaves of the direct map.
    pub direct: Leaf,
    /// Leaves of vmemmap; [`Leaf::Small`] scatters it over memory.
    pub vmemmap_leaf: Leaf,
    /// Leaves of the kernel's image.
    pub image_leaf: Leaf,
    /// Bit of the memory encryption mask in page table entries.
    pub sme: Option<u8>,
    /// SIZE(mem_section): 16, or 32 with page_ext.
    pub mem_section: Option<u64>,
    /// Location of VMCOREINFO.
    pub vmcoreinfo: VmcoreinfoPlace,
    /// CONFIG_MEMORY_FAILURE; false for a kernel without PG_hwpoison.
    pub memory_failure: bool,
    /// Number of CPUs with notes.
    pub cpus: u32,
    /// Number added to zone.NR_FREE_PAGES of the first zone, for tests of the check.
    pub nr_free_skew: i64,
    /// Form of the link from tail to head, for kernels that have two.
    pub head_link: Option<HeadLink>,
    /// Number of pages in vmalloc's area, scattered over memory.
    pub vmalloc: u64,
    /// Number of calls on each CPU's stack; 0 for no stacks.
    pub stack: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            levels: 4,
            kaslr: 0,
            phys_base: None,
            page_offset: None,
            vmemmap: None,
            direct: Leaf::Large,
            vmemmap_leaf: Leaf::Large,
            image_leaf: Leaf::Large,
            sme: None,
            mem_section: None,
            vmcoreinfo: VmcoreinfoPlace::Both,
            memory_failure: true,
            cpus: 1,
            nr_free_skew: 0,
            head_link: None,
            vmalloc: 0,
            stack: 0,
        }
    }
}

/// The use of a page frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Kernel data of no particular kind; also all RAM that is not named.
    Kernel,
    /// A page with PG_reserved.
    Reserved,
    /// A process's page table (a page type).
    PageTable,
    /// A block in the buddy allocator.
    Free,
    /// A block that a confidential guest has not yet accepted.
    Unaccepted,
    /// Page cache.
    Cache,
    /// Unmapped swap cache: no anonymous mapping, not on an LRU list.
    SwapCache,
    /// Anonymous memory; huge pages have an order.
    Anon,
    /// Anonymous memory merged by KSM (mapping & 3 == 3).
    Ksm,
    /// A hugetlbfs page.
    Hugetlb,
    /// Slab.
    Slab,
    /// Logically offline memory: balloons, unplugged virtio-mem.
    Offline,
}

impl Class {
    /// All classes with their names in the text.
    pub const ALL: [(&'static str, Class); 12] = [
        ("kernel", Class::Kernel),
        ("reserved", Class::Reserved),
        ("pagetable", Class::PageTable),
        ("free", Class::Free),
        ("unaccepted", Class::Unaccepted),
        ("cache", Class::Cache),
        ("swapcache", Class::SwapCache),
        ("anon", Class::Anon),
        ("ksm", Class::Ksm),
        ("hugetlb", Class::Hugetlb),
        ("slab", Class::Slab),
        ("offline", Class::Offline),
    ];

    /// Returns the class's name in the text.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, class)| *class == self)
            .map_or("", |(name, _)| name)
    }

    pub(crate) fn may_have_order(self) -> bool {
        use Class::{Anon, Cache, Free, Hugetlb, Kernel, Slab, Unaccepted};
        matches!(
            self,
            Free | Unaccepted | Cache | Anon | Hugetlb | Slab | Kernel
        )
    }
}

/// Contents of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Every word contains its own physical address: no two pages are equal.
    Stamp,
    /// Zeros.
    Zero,
    /// A repeated byte.
    Const(u8),
    /// Pseudo-random bytes that depend on the seed and the page frame.
    Random(u64),
    /// The contents of another page frame.
    Same(u64),
}

/// Consecutive blocks of page frames of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First page frame.
    pub pfn: u64,
    /// Class of the page frames.
    pub class: Class,
    /// Order of each block.
    pub order: u8,
    /// Number of blocks.
    pub count: u64,
    /// True to set PG_private (page cache only).
    pub private: bool,
    /// True to set PG_dirty.
    pub dirty: bool,
    /// True to set PG_hwpoison on each block's head.
    pub hwpoison: bool,
    /// True to set bit 0 of the word at page.mapping although the page is slab.
    pub anon_bit: bool,
    /// True if the struct pages of a hugetlb page's tails share one page of vmemmap.
    pub hvo: bool,
    /// A wrong order of a free block in page.private.
    pub bad_order: Option<u64>,
    /// Contents of the pages.
    pub fill: Fill,
    /// Line of the text, or 0.
    pub line: usize,
}

impl Run {
    /// Returns `count` blocks of 1 << `order` frames of a class, from `pfn` on.
    pub fn new(pfn: u64, class: Class, order: u8, count: u64) -> Self {
        Self {
            pfn,
            class,
            order,
            count,
            private: false,
            dirty: false,
            hwpoison: false,
            anon_bit: false,
            hvo: false,
            bad_order: None,
            fill: Fill::Stamp,
            line: 0,
        }
    }

    /// Returns all page frames of the run.
    pub fn frames(&self) -> Range<u64> {
        self.pfn..self.pfn.saturating_add(self.count << self.order)
    }

    /// Returns the first frame of the block that contains `pfn`.
    pub(crate) fn head(&self, pfn: u64) -> u64 {
        pfn & !((1 << self.order) - 1)
    }
}

/// A machine to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The architecture and its configuration.
    pub platform: Platform,
    /// The kernel to imitate.
    pub kernel: &'static Kernel,
    /// Properties of the memory's mapping and description.
    pub options: Options,
    /// RAM: ranges of page frames.
    pub ram: Vec<Range<u64>>,
    /// NUMA nodes; if empty, one node contains everything.
    pub nodes: Vec<Range<u64>>,
    /// The named page frames.
    pub runs: Vec<Run>,
    /// The kernel log.
    pub log: Option<KernelLog>,
}
