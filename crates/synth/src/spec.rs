//! What a machine is made of: the builder beneath the text.

use std::ops::Range;

use crate::error::SynthError;
use crate::kernels::{HeadLink, Kernel};
use crate::printk::KernelLog;

/// Blocks of the buddy allocator have orders below this (LENGTH(zone.free_area)).
pub(crate) const NR_PAGE_ORDERS: u8 = 11;

/// Size of one leaf of a page table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Large,
    /// 1 GiB.
    Giant,
}

/// Where the VMCOREINFO text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmcoreinfoPlace {
    /// Only in an ELF note.
    Note,
    /// Only in a page of memory.
    Page,
    /// In both, as a real kernel has it.
    Both,
    /// Nowhere.
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

/// How the machine's memory is mapped and described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Levels of page tables: 4 or 5.
    pub levels: u8,
    /// How far the kernel's image was moved in virtual memory (KERNELOFFSET).
    pub kaslr: u64,
    /// Physical minus virtual address of the image, as in VMCOREINFO; chosen by the
    /// builder when absent.
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
    /// Where VMCOREINFO is.
    pub vmcoreinfo: VmcoreinfoPlace,
    /// CONFIG_MEMORY_FAILURE: without it there is no PG_hwpoison.
    pub memory_failure: bool,
    /// CPUs that have notes.
    pub cpus: u32,
    /// Added to zone.NR_FREE_PAGES of the first zone, for tests of the check.
    pub nr_free_skew: i64,
    /// Form of the link from tail to head, where the kernel knows two.
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

/// What a page frame is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Kernel data of no particular kind; also every frame of RAM not named.
    Kernel,
    /// PG_reserved.
    Reserved,
    /// A page table of a process (a page type).
    PageTable,
    /// A block in the buddy allocator.
    Free,
    /// A block a confidential guest has not accepted yet.
    Unaccepted,
    /// Page cache.
    Cache,
    /// Swap cache that is not mapped: no anonymous mapping, not on an LRU list.
    SwapCache,
    /// Anonymous memory, with an order for huge pages.
    Anon,
    /// Anonymous memory merged by KSM (mapping & 3 == 3).
    Ksm,
    /// hugetlbfs.
    Hugetlb,
    /// Slab.
    Slab,
    /// Logically offline: balloons, unplugged virtio-mem.
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

    /// The class's name in the text.
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

/// What is in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Every word holds its own physical address: no two pages are equal.
    Stamp,
    /// All zero.
    Zero,
    /// One byte all over.
    Const(u8),
    /// Pseudo-random bytes by seed and page frame.
    Random(u64),
    /// The contents of another page frame.
    Same(u64),
}

/// Blocks of page frames of one kind, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First page frame.
    pub pfn: u64,
    /// What they are.
    pub class: Class,
    /// Order of each block.
    pub order: u8,
    /// How many blocks.
    pub count: u64,
    /// PG_private is set (page cache only).
    pub private: bool,
    /// PG_dirty is set.
    pub dirty: bool,
    /// PG_hwpoison is set on each block's head.
    pub hwpoison: bool,
    /// The word at page.mapping has bit 0 set although the page is slab.
    pub anon_bit: bool,
    /// The struct pages of a hugetlb page's tails share one page of vmemmap.
    pub hvo: bool,
    /// The order a free block pretends to have in page.private.
    pub bad_order: Option<u64>,
    /// What is in the pages.
    pub fill: Fill,
    /// Line of the text, or 0.
    pub line: usize,
}

impl Run {
    /// `count` blocks of 1 << `order` frames of a class, from `pfn` on.
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

    /// All page frames of the run.
    pub fn frames(&self) -> Range<u64> {
        self.pfn..self.pfn.saturating_add(self.count << self.order)
    }

    /// The block that holds a frame of the run: its first frame.
    pub(crate) fn head(&self, pfn: u64) -> u64 {
        pfn & !((1 << self.order) - 1)
    }
}

/// A machine to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The kernel to imitate.
    pub kernel: &'static Kernel,
    /// How memory is mapped and described.
    pub options: Options,
    /// RAM: ranges of page frames.
    pub ram: Vec<Range<u64>>,
    /// NUMA nodes; one node holds everything when empty.
    pub nodes: Vec<Range<u64>>,
    /// What the page frames are.
    pub runs: Vec<Run>,
    /// The kernel log.
    pub log: Option<KernelLog>,
}

impl Spec {
    /// A machine with this kernel and nothing else yet.
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

    /// Checks the options against the kernel; 0 is the line of a machine without text.
    pub(crate) fn check_options(&self, line: usize) -> Result<(), SynthError> {
        let options = &self.options;
        let fail = |message: &str| Err(SynthError::line(line, message));
        if !matches!(options.levels, 4 | 5) {
            return fail("levels= wants 4 or 5");
        }
        let giant = |address: &u64| address.is_multiple_of(1 << 30) && *address >= 0xff << 56;
        let mut starts = options.page_offset.iter().chain(&options.vmemmap);
        if !starts.all(giant) {
            return fail("page_offset= and vmemmap= want a kernel address at a multiple of 1 GiB");
        }
        if !matches!(options.mem_section, None | Some(16 | 32)) {
            return fail("mem_section= wants 16 or 32");
        }
        if options.vmemmap_leaf == Leaf::Giant || options.image_leaf == Leaf::Giant {
            return fail("only the direct map has leaves of 1g");
        }
        let sme = options.sme;
        if sme.is_some_and(|bit| !(40..52).contains(&bit) || !self.kernel.since(5, 1)) {
            return fail("sme= wants a bit from 40 to 51, and a kernel from 5.1 on");
        }
        if options.cpus > 4096 {
            return fail("cpus= above 4096");
        }
        if options.head_link.is_some() && self.kernel.head_link != HeadLink::InfoMask {
            return fail("compound_info= needs a kernel from 7.1 on");
        }
        Ok(())
    }

    /// Checks one run against the kernel; the message is without the line.
    pub(crate) fn check_run(&self, run: &Run) -> Result<(), SynthError> {
        let fail = |message: String| Err(SynthError::line(run.line, message));
        let name = run.class.name();
        if run.count == 0 || run.count > 1 << 24 {
            return fail(format!("n={} is not a sensible count", run.count));
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
        // The 64 struct pages of one page of vmemmap must all be the block's own; one
        // page of vmemmap is left to a hugetlb page from 5.18 on (e7d324850bfc).
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
