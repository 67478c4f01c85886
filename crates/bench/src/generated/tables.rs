//! The kernel's tables: page tables, mem_section, nodes and names.

use super::layout::{
    DIRECT_PUDS, IMAGE_PMD, IMAGE_PUD, Layout, MAP_FRAMES, NAMES, NODE_DATA, NODE_SIZE, NODES,
    PAGE, PAGE_OFFSET, PGD, SECTION_ROOT, SECTION_TABLES, SECTIONS_PER_ROOT, START_KERNEL_MAP,
    STATIC_END, VMEMMAP, VMEMMAP_PMDS, VMEMMAP_PUDS,
};
use super::vmcoreinfo::RELEASE;

/// _PAGE_PRESENT, _PAGE_RW, _PAGE_ACCESSED, _PAGE_DIRTY.
const TABLE_ENTRY: u64 = 0x63;
/// The same with _PAGE_PSE.
const LARGE_ENTRY: u64 = TABLE_ENTRY | 1 << 7;
/// SECTION_MARKED_PRESENT, SECTION_HAS_MEM_MAP, SECTION_IS_ONLINE, SECTION_IS_EARLY.
const SECTION_FLAGS: u64 = 0xf;
/// Entries per page table.
const ENTRIES: u64 = 512;
/// Page frames in 1 GiB.
const GIB_FRAMES: u64 = 1 << 18;

/// Offsets as in VMCOREINFO.
const NR_ZONES: u64 = 171_552;
const NODE_START: u64 = 171_560;
const NODE_SPANNED: u64 = 171_576;
const NODE_ID: u64 = 171_584;
const ZONE_SIZE: u64 = 1536;
const ZONE_SPANNED: u64 = 160;
const ZONE_VM_STAT: u64 = 1344;

/// Free pages of each zone, per node.
pub(super) type FreePages = [[u64; 3]; 2];

/// Writes the tables of one machine.
pub(super) struct Tables<'a> {
    pub(super) layout: &'a Layout,
    pub(super) free: &'a FreePages,
    /// True if the section with index `ordinal` has struct pages.
    pub(super) has_mem_map: &'a dyn Fn(u64) -> bool,
}

impl Tables<'_> {
    /// Writes the page of `frame` if it belongs to a table; returns true if it does.
    pub(super) fn write(&self, frame: u64, page: &mut [u8]) -> bool {
        let index = |first: u64| (frame - first) * ENTRIES;
        if frame == PGD {
            entries(page, top);
        } else if frame == IMAGE_PUD {
            let used = START_KERNEL_MAP >> 30 & (ENTRIES - 1);
            entries(page, |entry| {
                (entry == used).then_some(IMAGE_PMD << 12 | TABLE_ENTRY)
            });
        } else if frame == IMAGE_PMD {
            let end = STATIC_END >> 9;
            entries(page, |entry| {
                (entry < end).then_some(entry << 21 | LARGE_ENTRY)
            });
        } else if DIRECT_PUDS.contains(&frame) {
            entries(page, |entry| self.direct(index(DIRECT_PUDS.start) + entry));
        } else if VMEMMAP_PUDS.contains(&frame) {
            entries(page, |entry| {
                let table = VMEMMAP_PMDS.start + index(VMEMMAP_PUDS.start) + entry;
                Some(table << 12 | TABLE_ENTRY)
            });
        } else if VMEMMAP_PMDS.contains(&frame) {
            entries(page, |entry| {
                let ordinal = self.mapped(index(VMEMMAP_PMDS.start) + entry)?;
                let frame = self.layout.mem_map().start + ordinal * MAP_FRAMES;
                Some(frame << 12 | LARGE_ENTRY)
            });
        } else if SECTION_ROOT.contains(&frame) {
            entries(page, |entry| {
                let root = index(SECTION_ROOT.start) + entry;
                let mut sections = root * SECTIONS_PER_ROOT..(root + 1) * SECTIONS_PER_ROOT;
                let used = sections.any(|section| self.layout.ordinal(section).is_some());
                used.then_some(PAGE_OFFSET + ((SECTION_TABLES.start + root) << 12))
            });
        } else if SECTION_TABLES.contains(&frame) {
            entries(page, |entry| {
                let table = (frame - SECTION_TABLES.start) * SECTIONS_PER_ROOT;
                let ordinal = self.layout.ordinal(table + entry / 2)?;
                let mapped = (self.has_mem_map)(ordinal);
                // section_mem_map is the address of the section's struct pages minus the
                // section's offset in the array, which makes it the same for all sections. The
                // second word is the next field.
                (entry % 2 == 0 && mapped).then_some(VMEMMAP | SECTION_FLAGS)
            });
        } else if frame == NAMES {
            page.fill(0);
            let names = ["Linux", "generated", RELEASE, "#1 SMP", "x86_64", "(none)"];
            for (name, field) in names.iter().zip(page.chunks_mut(65)) {
                field[..name.len()].copy_from_slice(name.as_bytes());
            }
        } else if (NODE_DATA..NODE_DATA + 2).contains(&frame) {
            let node = |entry| NODES.get(entry as usize);
            entries(page, |entry| {
                let first = node(index(NODE_DATA) + entry)?.start;
                Some(PAGE_OFFSET + (first << 12))
            });
        } else if let Some(node) = NODES.iter().position(|node| node.contains(&frame)) {
            self.node(node, (frame - NODES[node].start) * PAGE as u64, page);
        } else {
            return false;
        }
        true
    }

    /// Returns the `gib`-th mapping of the direct map. Only RAM is mapped.
    fn direct(&self, gib: u64) -> Option<u64> {
        let frames = gib * GIB_FRAMES..(gib + 1) * GIB_FRAMES;
        let ram = self.layout.ram.iter();
        let used = ram
            .filter(|range| range.start < frames.end && frames.start < range.end)
            .count();
        (used > 0).then_some(gib << 30 | LARGE_ENTRY)
    }

    /// Returns the index of `section` among the sections of RAM, if it has struct pages.
    fn mapped(&self, section: u64) -> Option<u64> {
        let ordinal = self.layout.ordinal(section)?;
        (self.has_mem_map)(ordinal).then_some(ordinal)
    }

    /// Writes the bytes of a pglist_data from `offset` on.
    fn node(&self, node: usize, offset: u64, page: &mut [u8]) {
        let mut put = |at: u64, value: u64| {
            debug_assert!(at < NODE_SIZE);
            if (offset..offset + PAGE as u64).contains(&at) {
                page[(at - offset) as usize..][..8].copy_from_slice(&value.to_le_bytes());
            }
        };
        let [low, first, second] = &self.layout.ram;
        let span = if node == 0 {
            low.start..first.end
        } else {
            second.clone()
        };
        put(NR_ZONES, 3);
        put(NODE_START, span.start);
        put(NODE_SPANNED, span.end - span.start);
        put(NODE_ID, node as u64);
        let zones = [0..0x1000, 0x1000..0x10_0000, 0x10_0000..u64::MAX];
        for (index, (zone, free)) in (0..).zip(zones.iter().zip(self.free[node])) {
            let frames = zone
                .end
                .min(span.end)
                .saturating_sub(zone.start.max(span.start));
            put(index * ZONE_SIZE + ZONE_SPANNED, frames);
            put(index * ZONE_SIZE + ZONE_VM_STAT, free);
        }
    }
}

/// Returns the entries of the top-level page table.
fn top(entry: u64) -> Option<u64> {
    let table = |tables: &std::ops::Range<u64>, base: u64| {
        let index = entry.checked_sub(base >> 39 & (ENTRIES - 1))?;
        (index < tables.end - tables.start).then_some(tables.start + index)
    };
    let found = if entry == ENTRIES - 1 {
        Some(IMAGE_PUD)
    } else {
        table(&VMEMMAP_PUDS, VMEMMAP).or_else(|| table(&DIRECT_PUDS, PAGE_OFFSET))
    };
    found.map(|frame| frame << 12 | TABLE_ENTRY)
}

/// Fills a page with words. `None` is an empty entry.
fn entries(page: &mut [u8], entry: impl Fn(u64) -> Option<u64>) {
    for (index, bytes) in (0..).zip(page.as_chunks_mut().0) {
        *bytes = entry(index).unwrap_or(0).to_le_bytes();
    }
}
