//! Creates VMCOREINFO from a vmlinux with debug information, as `makedumpfile -g` does, with
//! addresses as linked.

use std::fmt::Write;

use crate::error::KernelError;
use crate::symbols::Symbols;
use crate::types::dwarf::Dwarf;
use crate::types::{Named, Shape, TypeId, TypeTable, find_member, resolve, size_of, structure};
use crate::vmlinux::Vmlinux;

/// Prefix of the release in linux_banner (init/version.c).
const BANNER: &str = "Linux version ";
const SYMBOLS: &[&str] = &[
    "mem_map",
    "vmem_map",
    "mem_section",
    "pkmap_count",
    "pkmap_count_next",
    "system_utsname",
    "init_uts_ns",
    "_stext",
    "swapper_pg_dir",
    "init_level4_pgt",
    "level4_kernel_pgt",
    "init_top_pgt",
    "vmlist",
    "vmap_area_list",
    "node_online_map",
    "node_states",
    "node_memblk",
    "node_data",
    "pgdat_list",
    "contig_page_data",
    "prb",
    "clear_seq",
    "log_buf",
    "log_buf_len",
    "log_end",
    "log_first_idx",
    "clear_idx",
    "log_next_idx",
    "max_pfn",
    "high_memory",
    "free_huge_page",
];
const SIZES: &[&str] = &[
    "page",
    "mem_section",
    "pglist_data",
    "zone",
    "free_area",
    "list_head",
    "node_memblk_s",
    "nodemask_t",
    "printk_log",
    "printk_ringbuffer",
    "prb_desc",
    "printk_info",
    "latched_seq",
];
const OFFSETS: &[&str] = &[
    "page.flags",
    "page._refcount",
    "page.mapping",
    "page.lru",
    "page._mapcount",
    "page.private",
    "page.compound_dtor",
    "page.compound_order",
    "page.compound_head",
    "mem_section.section_mem_map",
    "pglist_data.node_zones",
    "pglist_data.nr_zones",
    "pglist_data.node_mem_map",
    "pglist_data.node_start_pfn",
    "pglist_data.node_spanned_pages",
    "pglist_data.pgdat_next",
    "zone.free_pages",
    "zone.free_area",
    "zone.vm_stat",
    "zone.spanned_pages",
    "free_area.free_list",
    "list_head.next",
    "list_head.prev",
    "vm_struct.addr",
    "vmap_area.va_start",
    "vmap_area.list",
    "printk_log.ts_nsec",
    "printk_log.len",
    "printk_log.text_len",
    "printk_ringbuffer.desc_ring",
    "printk_ringbuffer.text_data_ring",
    "prb_desc_ring.count_bits",
    "prb_desc_ring.descs",
    "prb_desc_ring.infos",
    "prb_desc_ring.head_id",
    "prb_desc_ring.tail_id",
    "prb_desc.state_var",
    "prb_desc.text_blk_lpos",
    "prb_data_blk_lpos.begin",
    "prb_data_blk_lpos.next",
    "prb_data_ring.size_bits",
    "prb_data_ring.data",
    "printk_info.ts_nsec",
    "printk_info.text_len",
    "atomic_long_t.counter",
    "latched_seq.val",
    "uts_namespace.name",
];
/// Enumerators; `PG_head_mask`, derived from PG_head, comes between them.
const NUMBERS: &[&str] = &[
    "NR_FREE_PAGES",
    "N_ONLINE",
    "PG_lru",
    "PG_private",
    "PG_head_mask",
    "PG_swapcache",
    "PG_swapbacked",
    "PG_slab",
    "PG_hwpoison",
    "HUGETLB_PAGE_DTOR",
];
/// makedumpfile's value for an array of pointers whose length it does not need.
const SOME_ARRAY: u64 = i64::MAX as u64 - 1;

/// Creates the text; `page_size` is the machine's.
pub fn generate(vmlinux: &Vmlinux, page_size: u64) -> Result<String, KernelError> {
    let symbols = vmlinux.symbols()?;
    let dwarf = Dwarf::open(vmlinux)?;
    let dwarf = dwarf.ok_or_else(|| {
        vmlinux.unusable("has no .debug_info; give the vmlinux with debug information")
    })?;
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key}={value}");
    };
    line("OSRELEASE", &release(vmlinux, &symbols)?);
    line("PAGESIZE", &page_size.to_string());
    for name in SYMBOLS {
        if let Some(symbol) = symbols.find(name) {
            line(
                &format!("SYMBOL({name})"),
                &format!("{:016x}", symbol.address.0),
            );
        }
    }
    for name in SIZES {
        if let Some(size) = size(&dwarf, name)? {
            line(&format!("SIZE({name})"), &size.to_string());
        }
    }
    for name in OFFSETS {
        if let Some((offset, _)) = member(&dwarf, name)? {
            line(&format!("OFFSET({name})"), &offset.to_string());
        }
    }
    for name in ["node_data", "pgdat_list"] {
        let id = symbols.find(name).map(|_| dwarf.variable(name, None));
        if let Some(id) = id.transpose()?.flatten()
            && matches!(resolve(&dwarf, id)?.1.shape, Shape::Array(..))
        {
            line(&format!("LENGTH({name})"), &SOME_ARRAY.to_string());
        }
    }
    for name in ["zone.free_area", "free_area.free_list"] {
        let Some((_, id)) = member(&dwarf, name)? else {
            continue;
        };
        if let Shape::Array(_, count) = resolve(&dwarf, id)?.1.shape {
            line(&format!("LENGTH({name})"), &count.to_string());
        }
    }
    for name in NUMBERS {
        let value = match *name {
            "PG_head_mask" => dwarf
                .enumerator("PG_head")?
                .and_then(|bit| 1_i64.checked_shl(u32::try_from(bit).ok()?)),
            name => dwarf.enumerator(name)?,
        };
        if let Some(value) = value {
            line(&format!("NUMBER({name})"), &value.to_string());
        }
    }
    if let Some(file) = dwarf.source_file("pud_t")? {
        line("SRCFILE(pud_t)", &file);
    }
    Ok(text)
}

fn release(vmlinux: &Vmlinux, symbols: &Symbols) -> Result<String, KernelError> {
    let banner = symbols.find("linux_banner").map(|symbol| symbol.address.0);
    let text = banner
        .map(|address| vmlinux.data(address, 256))
        .transpose()?;
    let text = text.flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let release = text
        .strip_prefix(BANNER)
        .and_then(|rest| rest.split_once(' '));
    release
        .map(|(release, _)| release.to_owned())
        .ok_or_else(|| vmlinux.unusable("has no linux_banner that names a release"))
}

/// Returns the size of a struct or typedef.
pub(crate) fn size(dwarf: &Dwarf, name: &str) -> Result<Option<u64>, KernelError> {
    let id = match structure(dwarf, name)? {
        Some(id) => Some(id),
        None => dwarf.find(Named::Typedef, name)?,
    };
    id.map_or(Ok(None), |id| size_of(dwarf, id))
}

/// Returns the offset and the type of `STRUCT.MEMBER`.
fn member(dwarf: &Dwarf, name: &str) -> Result<Option<(u64, TypeId)>, KernelError> {
    let Some((outer, name)) = name.split_once('.') else {
        return Ok(None);
    };
    let Some(outer) = structure(dwarf, outer)? else {
        return Ok(None);
    };
    let place = find_member(dwarf, outer, name)?;
    Ok(place.map(|place| (place.offset, place.type_id)))
}
