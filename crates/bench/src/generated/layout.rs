//! The layout of RAM, and of the kernel's tables in it.

use std::ops::Range;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// Page frames per memory section (SECTION_SIZE_BITS 27).
pub(super) const SECTION_FRAMES: u64 = 1 << 15;
/// Size of a struct page in bytes.
pub(super) const PAGE_STRUCT: u64 = 64;
/// Page frames that hold the struct pages of one section: one 2 MiB mapping.
pub(super) const MAP_FRAMES: u64 = SECTION_FRAMES * PAGE_STRUCT / PAGE as u64;
/// Size of a struct mem_section in bytes.
pub(super) const SECTION_STRUCT: u64 = 16;
/// SECTIONS_PER_ROOT.
pub(super) const SECTIONS_PER_ROOT: u64 = PAGE as u64 / SECTION_STRUCT;
/// NR_SECTION_ROOTS with MAX_PHYSMEM_BITS 46.
pub(super) const SECTION_ROOTS: u64 = (1 << (46 - 27)) / SECTIONS_PER_ROOT;

/// Addresses without randomization (Documentation/arch/x86/x86_64/mm.rst).
pub(super) const START_KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
pub(super) const PAGE_OFFSET: u64 = 0xffff_8880_0000_0000;
pub(super) const VMEMMAP: u64 = 0xffff_ea00_0000_0000;

/// End of the page frames of the kernel's image and tables.
pub(super) const STATIC_END: u64 = 64 << 8;
/// CONFIG_PHYSICAL_START, where the image begins.
pub(super) const IMAGE: u64 = 16 << 8;
pub(super) const PGD: u64 = IMAGE + 1;
/// init_uts_ns and node_online_map.
pub(super) const NAMES: u64 = IMAGE + 2;
/// node_data: two frames.
pub(super) const NODE_DATA: u64 = IMAGE + 4;
pub(super) const IMAGE_PUD: u64 = IMAGE + 512;
pub(super) const IMAGE_PMD: u64 = IMAGE_PUD + 1;
/// The direct map, 64 TiB in mappings of 1 GiB.
pub(super) const DIRECT_PUDS: Range<u64> = IMAGE + 528..IMAGE + 528 + 128;
pub(super) const VMEMMAP_PUDS: Range<u64> = DIRECT_PUDS.end..DIRECT_PUDS.end + 2;
pub(super) const VMEMMAP_PMDS: Range<u64> = IMAGE + 1024..IMAGE + 2048;
/// mem_section: pointers to tables.
pub(super) const SECTION_ROOT: Range<u64> = IMAGE + 2048..IMAGE + 2048 + SECTION_ROOTS * 8 / 4096;
pub(super) const SECTION_TABLES: Range<u64> = IMAGE + 2304..IMAGE + 2304 + SECTION_ROOTS;
/// Size of a pglist_data in bytes.
pub(super) const NODE_SIZE: u64 = 174_464;
const NODE_FRAMES: u64 = NODE_SIZE.div_ceil(PAGE as u64);
pub(super) const NODES: [Range<u64>; 2] = [
    IMAGE + 4608..IMAGE + 4608 + NODE_FRAMES,
    IMAGE + 4864..IMAGE + 4864 + NODE_FRAMES,
];

/// The page frame at 1 GiB. RAM below 4 GiB ends here or earlier; the rest of that range
/// belongs to devices.
const LOW_END: u64 = 1 << 18;
/// The page frame at 4 GiB, where RAM continues, beginning with the struct pages.
pub(super) const HIGH_START: u64 = 1 << 20;
/// Alignment of nodes: 64 GiB.
const NODE_ALIGNMENT: u64 = 1 << 24;
/// Minimum number of RAM sections, so that the tables fit.
const MIN_SECTIONS: u64 = 4;

/// The address ranges of RAM: a part below 4 GiB, the rest of the first node above it, and,
/// after a gap, the second node.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Page frames; all bounds are multiples of a section.
    pub(super) ram: [Range<u64>; 3],
}

impl Layout {
    /// Lays out a machine with at least `size` bytes of RAM.
    pub(super) fn new(size: u64) -> Self {
        let sections = size
            .div_ceil(SECTION_FRAMES * PAGE as u64)
            .max(MIN_SECTIONS);
        let low = (sections / 2).min(LOW_END / SECTION_FRAMES);
        let first = (sections - low).div_ceil(2);
        let second = sections - low - first;
        let first_end = HIGH_START + first * SECTION_FRAMES;
        let start = (first_end + 1).next_multiple_of(NODE_ALIGNMENT) + NODE_ALIGNMENT;
        Self {
            ram: [
                0..low * SECTION_FRAMES,
                HIGH_START..first_end,
                start..start + second * SECTION_FRAMES,
            ],
        }
    }

    /// True if `frame` is RAM.
    pub(super) fn is_ram(&self, frame: u64) -> bool {
        self.ram.iter().any(|range| range.contains(&frame))
    }

    /// Returns the page frame after the last one.
    pub(super) fn end(&self) -> u64 {
        self.ram[2].end
    }

    /// Returns the number of page frames of RAM.
    pub(super) fn frames(&self) -> u64 {
        self.ram.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the index of `section` among the sections of RAM.
    pub(super) fn ordinal(&self, section: u64) -> Option<u64> {
        let frame = section * SECTION_FRAMES;
        let mut before = 0;
        for range in &self.ram {
            if range.contains(&frame) {
                return Some(before + (frame - range.start) / SECTION_FRAMES);
            }
            before += (range.end - range.start) / SECTION_FRAMES;
        }
        None
    }

    /// Returns the RAM section with index `ordinal`.
    pub(super) fn section(&self, ordinal: u64) -> Option<u64> {
        let mut rest = ordinal;
        for range in &self.ram {
            let sections = (range.end - range.start) / SECTION_FRAMES;
            if rest < sections {
                return Some(range.start / SECTION_FRAMES + rest);
            }
            rest -= sections;
        }
        None
    }

    /// Returns the page frames that hold all struct pages.
    pub(super) fn mem_map(&self) -> Range<u64> {
        HIGH_START..HIGH_START + self.frames() / SECTION_FRAMES * MAP_FRAMES
    }

    /// Returns the node and the zone (DMA, DMA32, NORMAL) of a page frame.
    pub(super) fn place(&self, frame: u64) -> (u64, u64) {
        let node = u64::from(frame >= self.ram[2].start);
        let zone = match frame {
            0..0x1000 => 0,
            0x1000..0x10_0000 => 1,
            _ => 2,
        };
        (node, zone)
    }
}
