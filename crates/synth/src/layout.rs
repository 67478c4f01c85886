//! Addresses of memory areas and symbols.

use crate::kernels::Kernel;
use crate::spec::Spec;

/// __START_KERNEL_map: start of the mapping of the image.
pub(crate) const START_KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
/// CONFIG_PHYSICAL_START: offset of the image in that mapping without KASLR.
pub(crate) const PHYSICAL_START: u64 = 0x100_0000;
/// KERNEL_IMAGE_SIZE with CONFIG_RANDOMIZE_BASE.
pub(crate) const KERNEL_IMAGE_SIZE: u64 = 1 << 30;
/// arch/x86/include/asm/sparsemem.h.
pub(crate) const SECTION_SIZE_BITS: u32 = 27;
/// Page frames per section.
pub(crate) const SECTION_FRAMES: u64 = 1 << (SECTION_SIZE_BITS - 12);
/// MAX_NUMNODES with CONFIG_NODES_SHIFT=10.
pub(crate) const MAX_NODES: u64 = 1024;
/// Documentation/arch/x86/x86_64/mm.rst, without randomization, for 4 and 5 levels.
pub(crate) const VMALLOC_START: [u64; 2] = [0xffff_c900_0000_0000, 0xffa0_0000_0000_0000];
const VMEMMAP: [u64; 2] = [0xffff_ea00_0000_0000, 0xffd4_0000_0000_0000];
const PAGE_OFFSET: [u64; 2] = [0xffff_8880_0000_0000, 0xff11_0000_0000_0000];
/// Before 4.20 (d52888aa2753).
const PAGE_OFFSET_OLD: [u64; 2] = [0xffff_8800_0000_0000, 0xff10_0000_0000_0000];

/// Offsets in the image, in bytes.
const STEXT: u64 = 0;
const SWAPPER_PG_DIR: u64 = 0x1000;
const INIT_UTS_NS: u64 = 0x2000;
const NODE_ONLINE_MAP: u64 = 0x2400;
const VMAP_AREA_LIST: u64 = 0x2500;
/// 1024 pointers.
const NODE_DATA: u64 = 0x4000;
/// Minimum number of page frames of the image.
pub(crate) const IMAGE_FRAMES: u64 = 16;

/// Addresses of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) page_offset: u64,
    pub(crate) vmemmap: u64,
    /// Physical and virtual address of the image.
    pub(crate) image_phys: u64,
    pub(crate) image_virt: u64,
    /// Number of page frames of the image.
    pub(crate) image_frames: u64,
    pub(crate) phys_base: i64,
    pub(crate) sme_mask: u64,
    pub(crate) max_physmem_bits: u32,
    pub(crate) mem_section_size: u64,
    /// Virtual address of the root array.
    pub(crate) mem_section: u64,
    /// Virtual address of the kernel log, if it exists.
    pub(crate) log: u64,
    /// Physical address of the page with VMCOREINFO, if it exists.
    pub(crate) vmcoreinfo_page: Option<u64>,
}

impl Layout {
    /// Computes the addresses that depend only on the text. The builder fills in the others.
    pub(crate) fn new(spec: &Spec) -> Self {
        let options = &spec.options;
        let five = usize::from(options.levels == 5);
        let page_offset = if spec.kernel.since(4, 20) {
            PAGE_OFFSET[five]
        } else {
            PAGE_OFFSET_OLD[five]
        };
        Self {
            page_offset: options.page_offset.unwrap_or(page_offset),
            vmemmap: options.vmemmap.unwrap_or(VMEMMAP[five]),
            image_phys: 0,
            image_virt: START_KERNEL_MAP
                .wrapping_add(PHYSICAL_START)
                .wrapping_add(options.kaslr),
            image_frames: 0,
            phys_base: 0,
            sme_mask: options.sme.map_or(0, |bit| 1 << bit),
            // pgtable_l5_enabled() ? 52 : 46.
            max_physmem_bits: if options.levels == 5 { 52 } else { 46 },
            mem_section_size: options
                .mem_section
                .unwrap_or(spec.kernel.zones.mem_section_size),
            mem_section: 0,
            log: 0,
            vmcoreinfo_page: None,
        }
    }

    /// Returns an address in the direct map.
    pub(crate) fn direct(&self, paddr: u64) -> u64 {
        self.page_offset + paddr
    }

    pub(crate) fn release(&self, kernel: &Kernel) -> String {
        format!("{}.0-synth", kernel.name)
    }

    pub(crate) fn swapper_pg_dir(&self) -> u64 {
        self.image_virt + SWAPPER_PG_DIR
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

    /// Returns the physical address of an object in the image.
    pub(crate) fn image_paddr(&self, vaddr: u64) -> u64 {
        vaddr - self.image_virt + self.image_phys
    }

    /// Returns the offset of `name` in `struct uts_namespace`, which follows a kref until 5.10.
    pub(crate) fn uts_name_offset(&self, kernel: &Kernel) -> u64 {
        if kernel.since(5, 11) { 0 } else { 4 }
    }

    /// Returns SECTIONS_PER_ROOT, the number that fits in a page.
    pub(crate) fn sections_per_root(&self) -> u64 {
        4096 / self.mem_section_size
    }

    /// Returns NR_SECTION_ROOTS.
    pub(crate) fn section_roots(&self) -> u64 {
        (1 << (self.max_physmem_bits - SECTION_SIZE_BITS)) / self.sections_per_root()
    }
}
