//! The kernels that can be imitated: their differences in `struct page` and VMCOREINFO.
//!
//! Page flag numbers are counted in `enum pageflags` of include/linux/page-flags.h for x86_64
//! with CONFIG_MEMORY_FAILURE and, up to 6.11, CONFIG_ARCH_USES_PG_UNCACHED. Those of 6.1 and
//! 6.12 agree with Debian's VMCOREINFO.
//!
//! For 7.1 the link from tail to head is taken from the patch that introduced it; flag numbers
//! and page types are assumed to be those of 6.16.
//!
//! Sizes and offsets of `struct zone` and `pglist_data` depend on the kernel's configuration
//! more than on its version. There are two real sets (see [`ZoneLayout`]), distributed over the
//! kernels so that a reader with built-in numbers fails.

/// Bits of `page.flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFlags {
    pub(crate) referenced: u8,
    pub(crate) uptodate: u8,
    pub(crate) dirty: u8,
    pub(crate) lru: u8,
    pub(crate) active: u8,
    pub(crate) workingset: u8,
    /// A flag until 6.9; from 6.10 (46df8e73a4a3) on, slab is a page type.
    pub(crate) slab: Option<u8>,
    /// PG_owner_priv_1.
    pub(crate) swapcache: u8,
    pub(crate) reserved: u8,
    pub(crate) private: u8,
    pub(crate) head: u8,
    pub(crate) swapbacked: u8,
    pub(crate) hwpoison: u8,
}

/// Values of `_mapcount` (as `page_type`) of typed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTypes {
    pub(crate) buddy: u32,
    /// From 5.0 (ca215086b14b).
    pub(crate) offline: Option<u32>,
    pub(crate) table: u32,
    /// From 6.9 (d99e3140a4d3).
    pub(crate) hugetlb: Option<u32>,
    /// From 6.10 (46df8e73a4a3).
    pub(crate) slab: Option<u32>,
    /// The type exists from 6.12 on, its VMCOREINFO key from 6.16 on.
    pub(crate) unaccepted: Option<u32>,
}

/// Location of a compound page's order and of its hugetlb mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompoundInfo {
    /// Bytes 16 and 17 of `page[1]`: `compound_dtor` (an id) and `compound_order`.
    PageDtorOrder,
    /// The same bytes under the names `folio._folio_dtor` and `_folio_order`,
    /// with offsets counted from the folio's start (6.3, 1c5509be58f6).
    FolioDtorOrder,
    /// Order in the low byte of `page[1].flags` (6.6, ebc1baf5c9b4); hugetlb is this flag bit
    /// there (9c5ccf2db04b).
    FlagsByteAndFlag(u8),
    /// Order as before; hugetlb is a page type of the head.
    FlagsByteAndType,
}

/// Form of the link from a tail page to its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadLink {
    /// `compound_head`: the head's address with bit 0 set.
    Pointer,
    /// `compound_info` of 7.1: a mask that converts the tail's address into the head's, with
    /// bit 0 set; all bits from order + log2(sizeof(struct page)) up are ones. From "mm: rework
    /// compound_head() for power-of-2 sizeof(struct page)". Without
    /// CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP the field has the pointer form.
    InfoMask,
}

/// Sizes and offsets of memory zones and nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneLayout {
    pub(crate) pglist_size: u64,
    pub(crate) nr_zones: u64,
    pub(crate) node_start_pfn: u64,
    pub(crate) node_spanned_pages: u64,
    pub(crate) node_id: u64,
    pub(crate) zone_size: u64,
    pub(crate) free_area: u64,
    pub(crate) vm_stat: u64,
    pub(crate) zone_spanned_pages: u64,
    pub(crate) free_area_size: u64,
    pub(crate) migrate_types: u64,
    pub(crate) mem_section_size: u64,
}

/// A kernel that can be imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Name in a text, for example `6.12`.
    pub name: &'static str,
    /// Major and minor version, which selects the VMCOREINFO keys.
    pub version: (u16, u16),
    pub(crate) flags: PageFlags,
    pub(crate) types: PageTypes,
    pub(crate) compound: CompoundInfo,
    pub(crate) head_link: HeadLink,
    pub(crate) zones: ZoneLayout,
}

impl Kernel {
    /// Returns the kernel with this name.
    pub fn named(name: &str) -> Option<&'static Kernel> {
        PRESETS.iter().find(|kernel| kernel.name == name)
    }

    pub(crate) fn since(&self, major: u16, minor: u16) -> bool {
        self.version >= (major, minor)
    }

    /// True if the kernel has `offline` pages.
    pub fn has_offline(&self) -> bool {
        self.types.offline.is_some()
    }

    /// True if VMCOREINFO describes `unaccepted` pages.
    pub fn has_unaccepted(&self) -> bool {
        self.types.unaccepted.is_some()
    }
}

/// Returns the names of all kernels that can be imitated, oldest first.
pub fn presets() -> Vec<&'static str> {
    PRESETS.iter().map(|kernel| kernel.name).collect()
}

/// Flag numbers up to 4.19.
const FLAGS_4_19: PageFlags = PageFlags {
    referenced: 2,
    uptodate: 3,
    dirty: 4,
    lru: 5,
    active: 6,
    workingset: 23, // not there yet; only read from 6.6 on
    slab: Some(8),
    swapcache: 9,
    reserved: 11,
    private: 12,
    head: 15,
    swapbacked: 18,
    hwpoison: 22,
};

/// Flag numbers from 4.20, which added PG_workingset and moved PG_error after PG_waiters
/// (1899ad18c607), to 6.5.
const FLAGS_5: PageFlags = PageFlags {
    referenced: 1,
    uptodate: 2,
    dirty: 3,
    lru: 4,
    active: 5,
    workingset: 6,
    slab: Some(9),
    swapcache: 10,
    reserved: 12,
    private: 13,
    head: 16,
    swapbacked: 19,
    hwpoison: 23,
};

/// 6.6 moves PG_writeback, PG_head and PG_waiters into the first byte.
const FLAGS_6_6: PageFlags = PageFlags {
    referenced: 2,
    uptodate: 3,
    dirty: 4,
    lru: 5,
    active: 8,
    workingset: 9,
    slab: Some(11),
    swapcache: 12,
    reserved: 14,
    private: 15,
    head: 6,
    swapbacked: 19,
    hwpoison: 23,
};

/// 6.10 removes PG_slab.
const FLAGS_6_10: PageFlags = PageFlags {
    slab: None,
    swapcache: 11,
    reserved: 13,
    private: 14,
    swapbacked: 18,
    hwpoison: 22,
    ..FLAGS_6_6
};

/// 6.12 removes PG_error (09022bc196d2), turns PG_mappedtodisk into PG_owner_2 and removes
/// PG_uncached (7a87225ae2c6).
const FLAGS_6_12: PageFlags = PageFlags {
    swapcache: 10,
    reserved: 13,
    private: 14,
    swapbacked: 17,
    hwpoison: 20,
    ..FLAGS_6_10
};

/// 6.14 adds PG_dropbehind, before PG_mlocked.
const FLAGS_6_16: PageFlags = PageFlags {
    hwpoison: 21,
    ..FLAGS_6_12
};

/// 4.18 and 4.19: a type clears its bit in -1.
const TYPES_4_19: PageTypes = PageTypes {
    buddy: !0x80,
    offline: None,
    table: !0x400,
    hugetlb: None,
    slab: None,
    unaccepted: None,
};

const TYPES_5_0: PageTypes = PageTypes {
    offline: Some(!0x100),
    ..TYPES_4_19
};

/// 5.11 removes PG_kmemcg; PG_table takes its bit.
const TYPES_5_11: PageTypes = PageTypes {
    table: !0x200,
    ..TYPES_5_0
};

const TYPES_6_9: PageTypes = PageTypes {
    hugetlb: Some(!0x800),
    ..TYPES_5_11
};

const TYPES_6_10: PageTypes = PageTypes {
    slab: Some(!0x1000),
    ..TYPES_6_9
};

/// `enum pagetype` from 6.12 (4ffca5a96678): one value in the top byte.
const TYPES_6_12: PageTypes = PageTypes {
    buddy: 0xf0 << 24,
    offline: Some(0xf1 << 24),
    table: 0xf2 << 24,
    hugetlb: Some(0xf4 << 24),
    slab: Some(0xf5 << 24),
    unaccepted: None,
};

/// "crash: export PAGE_UNACCEPTED_MAPCOUNT_VALUE to vmcoreinfo" is in 6.16.
const TYPES_6_16: PageTypes = PageTypes {
    unaccepted: Some(0xf7 << 24),
    ..TYPES_6_12
};

/// VMCOREINFO of Debian's cloud kernel 6.1: no CMA, no page_ext.
const ZONES_SMALL: ZoneLayout = ZoneLayout {
    pglist_size: 174_208,
    nr_zones: 171_552,
    node_start_pfn: 171_560,
    node_spanned_pages: 171_576,
    node_id: 171_584,
    zone_size: 1536,
    free_area: 256,
    vm_stat: 1344,
    zone_spanned_pages: 144,
    free_area_size: 88,
    migrate_types: 5,
    mem_section_size: 16,
};

/// VMCOREINFO of Debian's cloud kernel 6.12.
const ZONES_SMALL_6_12: ZoneLayout = ZoneLayout {
    pglist_size: 174_464,
    zone_spanned_pages: 160,
    ..ZONES_SMALL
};

/// VMCOREINFO of a distribution's server kernel: CMA and page_ext.
const ZONES_SERVER: ZoneLayout = ZoneLayout {
    pglist_size: 175_168,
    nr_zones: 172_512,
    node_start_pfn: 172_520,
    node_spanned_pages: 172_536,
    node_id: 172_544,
    zone_size: 1728,
    free_area: 256,
    vm_stat: 1536,
    zone_spanned_pages: 144,
    free_area_size: 104,
    migrate_types: 6,
    mem_section_size: 32,
};

const V5_10: Kernel = Kernel {
    name: "5.10",
    version: (5, 10),
    flags: FLAGS_5,
    types: TYPES_5_0,
    compound: CompoundInfo::PageDtorOrder,
    head_link: HeadLink::Pointer,
    zones: ZONES_SMALL,
};

const V6_12: Kernel = Kernel {
    name: "6.12",
    version: (6, 12),
    flags: FLAGS_6_12,
    types: TYPES_6_12,
    compound: CompoundInfo::FlagsByteAndType,
    head_link: HeadLink::Pointer,
    zones: ZONES_SMALL_6_12,
};

const V6_6: Kernel = Kernel {
    name: "6.6",
    version: (6, 6),
    flags: FLAGS_6_6,
    types: TYPES_5_11,
    // PG_hugetlb = PG_active.
    compound: CompoundInfo::FlagsByteAndFlag(8),
    head_link: HeadLink::Pointer,
    zones: ZONES_SERVER,
};

static PRESETS: [Kernel; 12] = [
    Kernel {
        name: "4.19",
        version: (4, 19),
        flags: FLAGS_4_19,
        types: TYPES_4_19,
        ..V5_10
    },
    Kernel {
        name: "5.4",
        version: (5, 4),
        zones: ZONES_SERVER,
        ..V5_10
    },
    V5_10,
    Kernel {
        name: "5.15",
        version: (5, 15),
        types: TYPES_5_11,
        zones: ZONES_SERVER,
        ..V5_10
    },
    Kernel {
        name: "6.1",
        version: (6, 1),
        types: TYPES_5_11,
        ..V5_10
    },
    Kernel {
        name: "6.3",
        version: (6, 3),
        types: TYPES_5_11,
        compound: CompoundInfo::FolioDtorOrder,
        zones: ZONES_SERVER,
        ..V5_10
    },
    V6_6,
    Kernel {
        name: "6.9",
        version: (6, 9),
        types: TYPES_6_9,
        compound: CompoundInfo::FlagsByteAndType,
        ..V6_6
    },
    Kernel {
        name: "6.10",
        version: (6, 10),
        flags: FLAGS_6_10,
        types: TYPES_6_10,
        zones: ZONES_SMALL,
        ..V6_12
    },
    V6_12,
    Kernel {
        name: "6.16",
        version: (6, 16),
        flags: FLAGS_6_16,
        types: TYPES_6_16,
        ..V6_12
    },
    Kernel {
        name: "7.1",
        version: (7, 1),
        flags: FLAGS_6_16,
        types: TYPES_6_16,
        head_link: HeadLink::InfoMask,
        ..V6_12
    },
];
