//! VMCOREINFO: the text written by kernel/crash_core.c (kernel/vmcore_info.c from 6.9 on) and
//! the architecture, with the keys of the imitated version.
//!
//! Keys of objects that the image does not contain, such as kallsyms and vmap_area, are
//! omitted.

use std::fmt::Write;

use crate::kernels::{CompoundInfo, HeadLink};
use crate::layout::{Layout, PAGE_STRUCT};
use crate::pages;
use crate::spec::Spec;

pub(crate) fn text(spec: &Spec, layout: &Layout) -> String {
    let mut info = Info(String::new());
    common(&mut info, spec, layout);
    page(&mut info, spec);
    zones(&mut info, spec);
    numbers(&mut info, spec);
    spec.platform.arch().vmcoreinfo(&mut info, spec, layout);
    if let Some(log) = &spec.log {
        info.0
            .push_str(&log.image_in(layout.log, layout.order).info);
    }
    info.0
}

/// Writes lines in the format of the kernel's macros.
#[derive(Debug)]
pub(crate) struct Info(String);

impl Info {
    pub(crate) fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{name}={value}");
    }

    /// VMCOREINFO_SYMBOL: hexadecimal without prefix.
    pub(crate) fn symbol(&mut self, name: &str, address: u64) {
        self.line(&format!("SYMBOL({name})"), format_args!("{address:x}"));
    }

    pub(crate) fn size(&mut self, name: &str, value: u64) {
        self.line(&format!("SIZE({name})"), value);
    }

    pub(crate) fn offset(&mut self, name: &str, value: u64) {
        self.line(&format!("OFFSET({name})"), value);
    }

    pub(crate) fn length(&mut self, name: &str, value: u64) {
        self.line(&format!("LENGTH({name})"), value);
    }

    /// VMCOREINFO_NUMBER: signed decimal.
    pub(crate) fn number(&mut self, name: &str, value: impl Into<i64>) {
        self.line(&format!("NUMBER({name})"), value.into());
    }

    /// A number in hexadecimal with prefix.
    pub(crate) fn hex(&mut self, name: &str, value: u64) {
        self.line(&format!("NUMBER({name})"), format_args!("{value:#x}"));
    }

    /// A page type, an int in the kernel.
    fn page_type(&mut self, name: &str, value: Option<u32>) {
        if let Some(value) = value {
            self.number(&format!("PAGE_{name}_MAPCOUNT_VALUE"), value.cast_signed());
        }
    }
}

fn common(info: &mut Info, spec: &Spec, layout: &Layout) {
    let kernel = spec.kernel;
    info.line("OSRELEASE", layout.release(kernel));
    // 0935288c6e00.
    if kernel.since(5, 14) {
        info.line("BUILD-ID", "b161207000000000000000000000000000000000");
    }
    info.line("PAGESIZE", layout.page_size);
    info.symbol("init_uts_ns", layout.init_uts_ns());
    // ca4a9241cc5e; before it, the name follows a kref of four bytes.
    if kernel.since(5, 11) {
        info.offset("uts_namespace.name", layout.uts_name_offset(kernel));
    }
    info.symbol("node_online_map", layout.node_online_map());
    info.symbol("swapper_pg_dir", layout.swapper_pg_dir());
    info.symbol("_stext", layout.stext());
    // 55c49fee57af replaced vmap_area_list.
    if kernel.since(6, 9) {
        info.hex("VMALLOC_START", layout.vmalloc);
    } else {
        info.symbol("vmap_area_list", layout.vmap_area_list());
    }
    if kernel.since(6, 12) {
        info.symbol("vmemmap", layout.vmemmap);
    }
    info.symbol("mem_section", layout.mem_section);
    info.length("mem_section", layout.section_roots());
    info.size("mem_section", layout.mem_section_size);
    info.offset("mem_section.section_mem_map", 0);
    // 4f5aecdff25f.
    if kernel.since(5, 14) {
        info.number("SECTION_SIZE_BITS", layout.section_size_bits);
    }
    // 1d50e5d0c505.
    if kernel.since(5, 9) {
        info.number("MAX_PHYSMEM_BITS", layout.max_physmem_bits);
    }
}

fn page(info: &mut Info, spec: &Spec) {
    let zones = spec.zones();
    info.size("page", PAGE_STRUCT);
    info.size("pglist_data", zones.pglist_size);
    info.size("zone", zones.zone_size);
    info.size("free_area", zones.free_area_size);
    info.size("list_head", 16);
    info.size(
        "nodemask_t",
        spec.platform.arch().max_nodes().div_ceil(64) * 8,
    );
    info.offset("page.flags", pages::FLAGS);
    info.offset("page._refcount", pages::REFCOUNT);
    info.offset("page.mapping", pages::MAPPING);
    info.offset("page.lru", pages::LRU);
    info.offset("page._mapcount", pages::MAPCOUNT);
    info.offset("page.private", pages::PRIVATE);
    match spec.kernel.compound {
        CompoundInfo::PageDtorOrder => {
            info.offset("page.compound_dtor", pages::DTOR);
            info.offset("page.compound_order", pages::ORDER);
        }
        CompoundInfo::FolioDtorOrder => {
            info.offset("folio._folio_dtor", PAGE_STRUCT + pages::DTOR);
            info.offset("folio._folio_order", PAGE_STRUCT + pages::ORDER);
        }
        CompoundInfo::FlagsByteAndFlag(_) | CompoundInfo::FlagsByteAndType => {}
    }
    // The name of the field, and thus the key, depends on the kernel; its form may be either.
    match spec.kernel.head_link {
        HeadLink::Pointer => info.offset("page.compound_head", pages::COMPOUND),
        HeadLink::InfoMask => info.offset("page.compound_info", pages::COMPOUND),
    }
}

fn zones(info: &mut Info, spec: &Spec) {
    let zones = spec.zones();
    info.offset("pglist_data.node_zones", 0);
    info.offset("pglist_data.nr_zones", zones.nr_zones);
    info.offset("pglist_data.node_start_pfn", zones.node_start_pfn);
    info.offset("pglist_data.node_spanned_pages", zones.node_spanned_pages);
    info.offset("pglist_data.node_id", zones.node_id);
    info.offset("zone.free_area", zones.free_area);
    info.offset("zone.vm_stat", zones.vm_stat);
    info.offset("zone.spanned_pages", zones.zone_spanned_pages);
    info.offset("free_area.free_list", 0);
    info.offset("list_head.next", 0);
    info.offset("list_head.prev", 8);
    info.length("zone.free_area", u64::from(spec.page_orders()));
    info.length("free_area.free_list", zones.migrate_types);
    info.number("NR_FREE_PAGES", 0);
}

fn numbers(info: &mut Info, spec: &Spec) {
    let kernel = spec.kernel;
    let (flags, types) = (spec.flags(), kernel.types);
    info.number("PG_lru", flags.lru);
    info.number("PG_private", flags.private);
    info.number("PG_swapcache", flags.swapcache);
    info.number("PG_swapbacked", flags.swapbacked);
    if let Some(slab) = flags.slab {
        info.number("PG_slab", slab);
    }
    info.page_type("SLAB", types.slab);
    if spec.options.memory_failure {
        info.number("PG_hwpoison", flags.hwpoison);
    }
    info.number("PG_head_mask", 1i64 << flags.head);
    info.page_type("BUDDY", Some(types.buddy));
    match kernel.compound {
        CompoundInfo::PageDtorOrder | CompoundInfo::FolioDtorOrder => {
            info.number("HUGETLB_PAGE_DTOR", pages::HUGETLB_PAGE_DTOR);
        }
        CompoundInfo::FlagsByteAndFlag(bit) => info.number("PG_hugetlb", bit),
        CompoundInfo::FlagsByteAndType => info.page_type("HUGETLB", types.hugetlb),
    }
    info.page_type("OFFLINE", types.offline);
    if spec.has_unaccepted() {
        info.page_type("UNACCEPTED", types.unaccepted);
    }
}
