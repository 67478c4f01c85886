//! The specification of a machine, which the text describes.

use std::ops::Range;

use crate::error::SynthError;
use crate::kernels::{HeadLink, Kernel};
use crate::printk::KernelLog;

/// Orders of the buddy allocator's blocks are below this one (LENGTH(zone.free_area)).
pub(crate) const NR_PAGE_ORDERS: u8 = 11;

/// Size of a page table leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Large,
    /// 1 GiB.
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
    /// Number of page table levels: 4 or 5.
    pub levels: u8,
    /// Offset of the kernel's image in virtual memory (KERNELOFFSET).
    pub kaslr: u64,
    /// Physical minus virtual address of the image, as in VMCOREINFO; `None` to let the builder
    /// choose.
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

    fn may_have_order(self) -> bool {
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

impl Spec {
    /// Returns a machine with this kernel and nothing else.
    pub fn new(kernel: &'static Kernel) -> Self {
        Self {
            kernel,
            options: Options::default(),
            ram: Vec::new(),
            nodes: Vec::new(),
            runs: Vec::new(),
            log: None,
        }
    }

    pub(crate) fn head_link(&self) -> HeadLink {
        self.options.head_link.unwrap_or(self.kernel.head_link)
    }

    /// Checks the options against the kernel; `line` is 0 for a machine without text.
    pub(crate) fn check_options(&self, line: usize) -> Result<(), SynthError> {
        let options = &self.options;
        let fail = |message: &str| Err(SynthError::line(line, message));
        if !matches!(options.levels, 4 | 5) {
            return fail("levels= wants 4 or 5");
        }
        let giant = |address: &u64| address.is_multiple_of(1 << 30) && *address >= 0xff << 56;
        let mut starts = options.page_offset.iter().chain(&options.vmemmap);
        if !starts.all(giant) {
            return fail(
                "page_offset= and vmemmap=: expected a kernel address at a multiple of 1 GiB",
            );
        }
        if !matches!(options.mem_section, None | Some(16 | 32)) {
            return fail("mem_section= wants 16 or 32");
        }
        if options.vmemmap_leaf == Leaf::Giant || options.image_leaf == Leaf::Giant {
            return fail("only the direct map has leaves of 1g");
        }
        let sme = options.sme;
        if sme.is_some_and(|bit| !(40..52).contains(&bit) || !self.kernel.since(5, 1)) {
            return fail("sme=: expected a bit from 40 to 51, and a kernel from 5.1 on");
        }
        if options.cpus > 4096 {
            return fail("cpus= above 4096");
        }
        if options.head_link.is_some() && self.kernel.head_link != HeadLink::InfoMask {
            return fail("compound_info= needs a kernel from 7.1 on");
        }
        Ok(())
    }

    /// Checks a run against the kernel; the message does not contain the line.
    pub(crate) fn check_run(&self, run: &Run) -> Result<(), SynthError> {
        let fail = |message: String| Err(SynthError::line(run.line, message));
        let name = run.class.name();
        if run.count == 0 || run.count > 1 << 24 {
            return fail(format!("n={} is out of range", run.count));
        }
        if run.order >= NR_PAGE_ORDERS {
            return fail(format!("order={} is above 10", run.order));
        }
        if run.order > 0 && !run.class.may_have_order() {
            return fail(format!("`{name}` pages have no order"));
        }
        if run.pfn & ((1 << run.order) - 1) != 0 {
            return fail(format!(
                "page frame {:#x} is not aligned to order {}",
                run.pfn, run.order
            ));
        }
        if run.class == Class::Hugetlb && run.order == 0 {
            return fail("a hugetlb page needs an order".into());
        }
        if run.class == Class::Offline && !self.kernel.has_offline() {
            return fail(format!("{} has no offline pages", self.kernel.name));
        }
        if run.class == Class::Unaccepted {
            if !self.kernel.has_unaccepted() {
                return fail(format!("{} has no unaccepted pages", self.kernel.name));
            }
            if run.order != NR_PAGE_ORDERS - 1 {
                return fail("unaccepted blocks have order 10".into());
            }
        }
        if run.private && run.class != Class::Cache {
            return fail("`private` is for cache pages".into());
        }
        if run.anon_bit && run.class != Class::Slab {
            return fail("`anonbit` is for slab pages".into());
        }
        if run.bad_order.is_some() && run.class != Class::Free {
            return fail("`badorder` is for free pages".into());
        }
        if run.hwpoison {
            if matches!(run.class, Class::Free | Class::Unaccepted) {
                return fail(format!("`{name}` pages cannot be poisoned"));
            }
            if !self.options.memory_failure {
                return fail("`hwpoison` needs memory_failure=yes".into());
            }
        }
        // All 64 struct pages of a page of vmemmap must belong to the block. From 5.18 on, one
        // page of vmemmap is left to a hugetlb page (e7d324850bfc).
        if run.hvo && !self.kernel.since(5, 18) {
            return fail(format!("{} has no `hvo`", self.kernel.name));
        }
        if run.hvo
            && (run.class != Class::Hugetlb
                || run.order < 7
                || self.options.vmemmap_leaf != Leaf::Small)
        {
            return fail("`hvo` is for hugetlb of order 7 or more with vmemmap_leaf=4k".into());
        }
        Ok(())
    }
}
