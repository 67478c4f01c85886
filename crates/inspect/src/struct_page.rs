//! The page frame that a struct page describes.

use std::collections::HashSet;

use bigiron_format::{PageFrame, VirtAddr};
use bigiron_kernel::KernelError;
use bigiron_kernel::mem_map::MemMap;

use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of parts of memory whose struct pages are tried.
const MAX_TRIED: usize = 64 << 10;

/// Returns the page frame whose struct page is at `page`; `None` if it is no struct page.
///
/// With SPARSEMEM_VMEMMAP all sections have the same map, so that the first one tells; without
/// it, each section may have another one.
pub(crate) fn frame_of(
    program: &Program,
    map: &MemMap,
    page: VirtAddr,
) -> Result<Option<PageFrame>, InspectError> {
    let kernel = program.kernel();
    let size = map.page_struct_size().max(1);
    let shift = map.frames_shift();
    let section_map =
        |section: u64| -> Result<Option<VirtAddr>, KernelError> { map.section(kernel, section) };
    let mut tried = HashSet::new();
    for first in kernel.source().sections().take(MAX_TRIED) {
        program.step(1)?;
        let Ok(Some(start)) = section_map(first.0 >> shift) else {
            continue;
        };
        if !tried.insert(start) {
            continue;
        }
        let distance = page.0.wrapping_sub(start.0);
        let frame = PageFrame(distance / size);
        if distance.is_multiple_of(size)
            && frame < kernel.source().end_frame()
            && section_map(frame.0 >> shift).is_ok_and(|own| own == Some(start))
        {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}
