//! Pages that kernel objects name: by their struct pages, or by the memory of the objects.

use bigiron_format::{PageFrame, VirtAddr};

use super::rule::Action;
use crate::erase::Objects;
use crate::frame_set::FrameSet;
use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::page::PageLayout;

/// Adds the page frames of objects in memory: to keep, those that have any of it; to drop and to
/// blank, those that have nothing else. Returns why some of them are not found.
pub(super) fn add_bytes(
    kernel: &Kernel,
    objects: &Objects,
    action: Action,
    frames: &mut FrameSet,
) -> Option<String> {
    let shift = kernel.source().page_shift();
    let page = 1_u64 << shift;
    let mut problem = None;
    for (address, len) in &objects.extents {
        let Some(end) = address.checked_add(*len) else {
            continue;
        };
        let (mut at, end) = match action {
            Action::Keep => (*address & !(page - 1), end),
            Action::Drop | Action::Blank => (address.next_multiple_of(page), end & !(page - 1)),
        };
        while at < end {
            match kernel.translate(VirtAddr(at)) {
                Ok(Some(leaf)) => {
                    let first = leaf.physical.0 >> shift;
                    let count = leaf.len.min(end - at).div_ceil(page);
                    frames.add(PageFrame(first), PageFrame(first + count));
                    at = at.saturating_add(count << shift);
                }
                Ok(None) | Err(_) => {
                    problem.get_or_insert_with(|| format!("address {at:#x} is not mapped"));
                    at = at.saturating_add(page);
                }
            }
        }
    }
    problem
}

/// Adds the page frames whose struct pages the objects are, of a compound page all of them.
/// Returns why some of them are not found.
pub(super) fn add_pages(
    kernel: &Kernel,
    objects: &Objects,
    frames: &mut FrameSet,
) -> Result<Option<String>, String> {
    let text = |error: crate::KernelError| error.to_string();
    let map = MemMap::find(kernel).map_err(text)?;
    let layout = PageLayout::new(kernel.info(), kernel.source().endian()).map_err(text)?;
    let base = base_of(kernel, &map).ok_or("the memory map is not contiguous in addresses")?;
    let mut problem = None;
    for (address, _) in &objects.extents {
        match frame_of(kernel, &map, base, *address) {
            Some(frame) => {
                let order = order_of(kernel, &map, &layout, frame);
                let end = frame.saturating_add(1_u64.checked_shl(order).unwrap_or(1));
                frames.add(PageFrame(frame), PageFrame(end));
            }
            None => {
                problem.get_or_insert_with(|| format!("{address:#x} is no struct page"));
            }
        }
    }
    Ok(problem)
}

/// Returns the address that the struct page of page frame 0 would have, by the first section.
fn base_of(kernel: &Kernel, map: &MemMap) -> Option<u64> {
    let mut sections = kernel.source().sections();
    let section = |first: PageFrame| map.section(kernel, first.0 >> map.frames_shift());
    let decoded = sections.find_map(|first| section(first).ok().flatten())?;
    Some(map.page_struct(decoded, PageFrame(0)).0)
}

/// Returns the page frame whose struct page is at `address`.
fn frame_of(kernel: &Kernel, map: &MemMap, base: u64, address: u64) -> Option<u64> {
    let distance = address.checked_sub(base)?;
    let size = map.page_struct_size();
    let frame = distance.is_multiple_of(size).then_some(distance / size)?;
    let decoded = map.section(kernel, frame >> map.frames_shift()).ok()??;
    (map.page_struct(decoded, PageFrame(frame)).0 == address).then_some(frame)
}

/// Returns log2 of the number of page frames of the compound page whose head is `frame`; 0 for any
/// other page.
fn order_of(kernel: &Kernel, map: &MemMap, layout: &PageLayout, frame: u64) -> u32 {
    let read = |frame: u64| {
        let section = map.section(kernel, frame >> map.frames_shift());
        let address = map.page_struct(section.ok()??, PageFrame(frame));
        let mut page = vec![0; layout.size];
        kernel.read("a struct page", address, &mut page).ok()?;
        Some(page)
    };
    match (read(frame), read(frame.saturating_add(1))) {
        (Some(page), Some(second)) if layout.is_head(&page) => {
            layout.compound_order(frame, &second)
        }
        _ => 0,
    }
}
