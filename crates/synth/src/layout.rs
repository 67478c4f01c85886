//! Addresses of memory areas and symbols.

use crate::kernels::Kernel;
use crate::order::ByteOrder;
use crate::spec::Spec;

/// SIZE(page).
pub(crate) const PAGE_STRUCT: u64 = 64;

/// Offsets in the image, in bytes.
const STEXT: u64 = 0;
const INIT_UTS_NS: u64 = 0x2000;
const NODE_ONLINE_MAP: u64 = 0x2400;
const VMAP_AREA_LIST: u64 = 0x2500;
/// 1024 pointers.
const NODE_DATA: u64 = 0x4000;
/// Objects of one architecture, 24 KiB.
const ARCH_OBJECTS: u64 = 0xa000;
/// End of the objects, where large top-level tables begin.
const OBJECTS_END: u64 = 0x1_0000;
/// The top-level table, if it is as small as a page of 4 KiB.
const SMALL_TABLE: u64 = 0x1000;

/// Addresses of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) page_size: u64,
    pub(crate) order: ByteOrder,
    /// First address of RAM.
    pub(crate) ram_base: u64,
    /// Address of physical address 0 in the linear map.
    pub(crate) page_offset: u64,
    /// Address of the struct page of frame 0.
    pub(crate) vmemmap: u64,
    pub(crate) vmalloc: u64,
    /// Physical and virtual address of the image.
    pub(crate) image_phys: u64,
    pub(crate) image_virt: u64,
    /// Number of page frames of the image.
    pub(crate) image_frames: u64,
    /// Offset of the top-level table in the image.
    pub(crate) top_table: u64,
    pub(crate) section_size_bits: u32,
    pub(crate) max_physmem_bits: u32,
    pub(crate) mem_section_size: u64,
    /// Virtual address of the root array.
    pub(crate) mem_section: u64,
    /// Virtual address of the kernel log, if it exists.
    pub(crate) log: u64,
    /// Physical address of what only the architecture has: amode31 of s390x.
    pub(crate) fixed: u64,
    /// Physical address of the page with VMCOREINFO, if it exists.
    pub(crate) vmcoreinfo_page: Option<u64>,
}

impl Layout {
    /// Computes the addresses that depend only on the text. The builder fills in the others.
    pub(crate) fn new(spec: &Spec) -> Self {
        let arch = spec.platform.arch();
        let page_size = spec.platform.page_size();
        let first = spec.ram.iter().map(|range| range.start).min();
        let ram_base = first.unwrap_or(0) * page_size;
        let areas = arch.areas(spec, ram_base);
        Self {
            page_size,
            order: spec.platform.order(),
            ram_base,
            page_offset: areas.page_offset,
            vmemmap: areas.vmemmap,
            vmalloc: areas.vmalloc,
            image_phys: 0,
            image_virt: 0,
            image_frames: 0,
            top_table: 0,
            section_size_bits: arch.section_size_bits(spec),
            max_physmem_bits: arch.max_physmem_bits(spec),
            mem_section_size: spec
                .options
                .mem_section
                .unwrap_or(spec.kernel.zones.mem_section_size),
            mem_section: 0,
            log: 0,
            fixed: 0,
            vmcoreinfo_page: None,
        }
    }

    /// Places a top-level table of `table` bytes in the image; returns the bytes of the image.
    pub(crate) fn place_top_table(&mut self, table: u64) -> u64 {
        if table.max(self.page_size) <= 4096 {
            self.top_table = SMALL_TABLE;
            return OBJECTS_END;
        }
        self.top_table = OBJECTS_END.next_multiple_of(table);
        (self.top_table + 3 * table).next_multiple_of(self.page_size)
    }

    /// Returns an address in the linear map.
    pub(crate) fn direct(&self, paddr: u64) -> u64 {
        self.page_offset.wrapping_add(paddr)
    }

    /// Returns the physical address of one in the linear map.
    pub(crate) fn direct_paddr(&self, vaddr: u64) -> u64 {
        vaddr.wrapping_sub(self.page_offset)
    }

    /// Returns the virtual address of a frame's struct page.
    pub(crate) fn struct_page(&self, pfn: u64) -> u64 {
        self.vmemmap.wrapping_add(pfn * PAGE_STRUCT)
    }

    pub(crate) fn release(&self, kernel: &Kernel) -> String {
        format!("{}.0-synth", kernel.name)
    }

    pub(crate) fn swapper_pg_dir(&self) -> u64 {
        self.image_virt + self.top_table
    }

    pub(crate) fn stext(&self) -> u64 {
        self.image_virt + STEXT
    }

    pub(crate) fn init_uts_ns(&self) -> u64 {
        self.image_virt + INIT_UTS_NS
    }

    pub(crate) fn node_online_map(&self) -> u64 {
        self.image_virt + NODE_ONLINE_MAP
    }

    pub(crate) fn vmap_area_list(&self) -> u64 {
        self.image_virt + VMAP_AREA_LIST
    }

    pub(crate) fn node_data(&self) -> u64 {
        self.image_virt + NODE_DATA
    }

    /// Returns the virtual address of an object of the architecture, by its offset below 24 KiB.
    pub(crate) fn arch_object(&self, offset: u64) -> u64 {
        self.image_virt + ARCH_OBJECTS + offset
    }

    /// Returns the physical address of an object in the image.
    pub(crate) fn image_paddr(&self, vaddr: u64) -> u64 {
        vaddr - self.image_virt + self.image_phys
    }

    /// Returns the offset of `name` in `struct uts_namespace`, which follows a kref until 5.10.
    pub(crate) fn uts_name_offset(&self, kernel: &Kernel) -> u64 {
        if kernel.since(5, 11) { 0 } else { 4 }
    }

    /// Returns the number of page frames of a section.
    pub(crate) fn section_frames(&self) -> u64 {
        (1 << self.section_size_bits) / self.page_size
    }

    /// Returns SECTIONS_PER_ROOT, the number that fits in a page.
    pub(crate) fn sections_per_root(&self) -> u64 {
        self.page_size / self.mem_section_size
    }

    /// Returns NR_SECTION_ROOTS.
    pub(crate) fn section_roots(&self) -> u64 {
        (1_u64 << (self.max_physmem_bits - self.section_size_bits))
            .div_ceil(self.sections_per_root())
    }
}
