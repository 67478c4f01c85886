//! Nodes and zones, with the fields that a check of the free pages reads.

use std::ops::Range;

use crate::error::SynthError;
use crate::layout::Layout;
use crate::memory::{Frames, Memory};
use crate::spec::{Class, Spec};

/// Returns the frames of ZONE_DMA, ZONE_DMA32 and ZONE_NORMAL, of which the first ones may be
/// empty. ZONE_MOVABLE and ZONE_DEVICE follow and are empty.
fn zone_frames(spec: &Spec) -> [Range<u64>; 3] {
    let [dma, dma32] = spec
        .platform
        .arch()
        .zone_ends()
        .map(|end| end >> spec.platform.page_shift);
    [0..dma, dma..dma32, dma32..u64::MAX]
}

pub(crate) fn zone_of(spec: &Spec, pfn: u64) -> u64 {
    zone_frames(spec)
        .iter()
        .position(|zone| zone.contains(&pfn))
        .unwrap_or(0) as u64
}

pub(crate) fn node_of(spec: &Spec, pfn: u64) -> u64 {
    spec.nodes
        .iter()
        .position(|node| node.contains(&pfn))
        .unwrap_or(0) as u64
}

/// Returns the number of page frames that the kernel counts as free, which includes unaccepted
/// ones (`__free_unaccepted` in mm/page_alloc.c calls account_freepages).
pub(crate) fn free_frames(spec: &Spec, node: u64, zone: u64) -> u64 {
    free_blocks(spec, node, zone)
        .map(|(order, _)| 1 << order)
        .sum()
}

/// Returns order and class of every free block of a zone.
fn free_blocks(spec: &Spec, node: u64, zone: u64) -> impl Iterator<Item = (u8, Class)> {
    spec.runs
        .iter()
        .filter(|run| matches!(run.class, Class::Free | Class::Unaccepted))
        .flat_map(|run| {
            run.frames()
                .step_by(1 << run.order)
                .map(|pfn| (pfn, run.order, run.class))
        })
        .filter(move |(pfn, _, _)| node_of(spec, *pfn) == node && zone_of(spec, *pfn) == zone)
        .map(|(_, order, class)| (order, class))
}

/// Returns the number of nodes, which is at least one.
pub(crate) fn node_count(spec: &Spec) -> u64 {
    spec.nodes.len().max(1) as u64
}

/// Writes node_online_map, node_data and every node's `pglist_data`.
pub(crate) fn write(
    spec: &Spec,
    layout: &Layout,
    memory: &mut Memory,
    frames: &mut Frames,
) -> Result<(), SynthError> {
    let at = spec.zones();
    let nodes = node_count(spec);
    if nodes > 64.min(spec.platform.arch().max_nodes()) {
        return Err(SynthError::layout("more than 64 nodes"));
    }
    let online = u64::MAX >> (64 - nodes);
    memory.write_u64(layout.image_paddr(layout.node_online_map()), online)?;
    let mut skew = spec.options.nr_free_skew;
    for node in 0..nodes {
        let pages = at.pglist_size.div_ceil(layout.page_size);
        let pgdat = frames.alloc(pages, 1)?;
        (pgdat..pgdat + pages).for_each(|pfn| memory.own(pfn));
        let pgdat = pgdat * layout.page_size;
        let slot = layout.image_paddr(layout.node_data()) + node * 8;
        memory.write_u64(slot, layout.direct(pgdat))?;

        let span = match spec.nodes.get(node as usize) {
            Some(range) => range.clone(),
            None => memory.ram().first().map_or(0, |first| first.start)..memory.max_pfn(),
        };
        let mut nr_zones = 0u32;
        for (index, zone) in zone_frames(spec).iter().enumerate() {
            let (start, end) = (zone.start.max(span.start), zone.end.min(span.end));
            if start >= end {
                continue;
            }
            nr_zones = index as u32 + 1;
            let base = pgdat + index as u64 * at.zone_size;
            memory.write_u64(base + at.zone_spanned_pages, end - start)?;
            let free = free_frames(spec, node, index as u64);
            let told = free.wrapping_add_signed(std::mem::take(&mut skew));
            // vm_stat[NR_FREE_PAGES]; the value of NR_FREE_PAGES is 0.
            memory.write_u64(base + at.vm_stat, told)?;
            for order in 0..spec.page_orders() {
                let blocks = free_blocks(spec, node, index as u64)
                    .filter(|block| *block == (order, Class::Free))
                    .count();
                let area = base + at.free_area + u64::from(order) * at.free_area_size;
                // nr_free, after the lists.
                memory.write_u64(area + at.migrate_types * 16, blocks as u64)?;
            }
        }
        memory.write_u32(pgdat + at.nr_zones, nr_zones)?;
        memory.write_u64(pgdat + at.node_start_pfn, span.start)?;
        memory.write_u64(pgdat + at.node_spanned_pages, span.end - span.start)?;
        memory.write_u32(pgdat + at.node_id, node as u32)?;
    }
    Ok(())
}
