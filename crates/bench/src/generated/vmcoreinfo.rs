//! VMCOREINFO: keys and layout of Debian's cloud kernel 6.12, with the addresses of the
//! generated machine.

use super::layout::{NAMES, NODE_DATA, PAGE_OFFSET, PGD, SECTION_ROOT, START_KERNEL_MAP, VMEMMAP};

/// The kernel's release.
pub(super) const RELEASE: &str = "6.12.0-generated";

/// The part that does not depend on the machine.
const LAYOUT: &str = "\
OFFSET(uts_namespace.name)=0
LENGTH(mem_section)=2048
SIZE(mem_section)=16
OFFSET(mem_section.section_mem_map)=0
NUMBER(SECTION_SIZE_BITS)=27
NUMBER(MAX_PHYSMEM_BITS)=46
SIZE(page)=64
SIZE(pglist_data)=174464
SIZE(zone)=1536
SIZE(free_area)=88
SIZE(list_head)=16
SIZE(nodemask_t)=128
OFFSET(page.flags)=0
OFFSET(page._refcount)=52
OFFSET(page.mapping)=24
OFFSET(page.lru)=8
OFFSET(page._mapcount)=48
OFFSET(page.private)=40
OFFSET(page.compound_head)=8
OFFSET(pglist_data.node_zones)=0
OFFSET(pglist_data.nr_zones)=171552
OFFSET(pglist_data.node_start_pfn)=171560
OFFSET(pglist_data.node_spanned_pages)=171576
OFFSET(pglist_data.node_id)=171584
OFFSET(zone.free_area)=256
OFFSET(zone.vm_stat)=1344
OFFSET(zone.spanned_pages)=160
OFFSET(free_area.free_list)=0
OFFSET(list_head.next)=0
OFFSET(list_head.prev)=8
LENGTH(zone.free_area)=11
LENGTH(free_area.free_list)=5
NUMBER(NR_FREE_PAGES)=0
NUMBER(PG_lru)=5
NUMBER(PG_private)=14
NUMBER(PG_swapcache)=10
NUMBER(PG_swapbacked)=17
NUMBER(PAGE_SLAB_MAPCOUNT_VALUE)=-184549376
NUMBER(PG_hwpoison)=20
NUMBER(PG_head_mask)=64
NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)=-268435456
NUMBER(PAGE_HUGETLB_MAPCOUNT_VALUE)=-201326592
NUMBER(PAGE_OFFLINE_MAPCOUNT_VALUE)=-251658240
NUMBER(phys_base)=0
NUMBER(pgtable_l5_enabled)=0
LENGTH(node_data)=1024
KERNELOFFSET=0
NUMBER(KERNEL_IMAGE_SIZE)=1073741824
NUMBER(sme_mask)=0
";

/// Returns the VMCOREINFO text.
pub(super) fn text() -> String {
    let image = |frame: u64| START_KERNEL_MAP + (frame << 12);
    let symbols = [
        ("init_uts_ns", image(NAMES)),
        ("swapper_pg_dir", image(PGD)),
        ("init_top_pgt", image(PGD)),
        ("_stext", image(PGD - 1)),
        ("node_data", image(NODE_DATA)),
        ("node_online_map", image(NAMES) + 2048),
        ("vmemmap", VMEMMAP),
        ("mem_section", PAGE_OFFSET + (SECTION_ROOT.start << 12)),
    ];
    let mut text = format!("OSRELEASE={RELEASE}\nPAGESIZE=4096\n{LAYOUT}");
    for (name, address) in symbols {
        text.push_str(&format!("SYMBOL({name})={address:x}\n"));
    }
    text
}
