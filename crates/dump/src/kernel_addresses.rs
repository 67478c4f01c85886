//! The virtual addresses at which a kernel maps its RAM and its image, for a core whose source
//! lacks them: gdb finds memory only by the addresses in the program headers, and so does drgn on
//! architectures whose page tables it does not know.

use bigiron_format::elf::LoadSegment;
use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::{Kernel, MemorySource, arch};

use crate::error::DumpError;

/// Maximum number of mappings of the kernel image: 1 GiB (KERNEL_IMAGE_SIZE) in pages of 4 KiB.
const MAX_MAPPINGS: usize = 1 << 18;

/// Maximum number of segments that map RAM a second time; there are one or two, divided where the
/// segments of RAM are.
const MAX_ALIASES: usize = 1 << 12;
/// Maximum number of RAM segments that are compared with others; each segment of a sound core has one.
const MAX_COMPARISONS: usize = 1 << 22;

/// Sets the virtual addresses of RAM segments if the source has none, and returns the segments
/// that map RAM a second time: those of the source, and the kernel image. `ram` is sorted, and each
/// alias maps a part of one segment.
///
/// # Errors
///
/// The architecture is unknown.
pub(crate) fn complete(
    source: &dyn MemorySource,
    kernel: Option<&Kernel>,
    ram: &mut [LoadSegment],
) -> Result<Vec<LoadSegment>, DumpError> {
    if let Some(kernel) = kernel
        && ram.iter().all(|segment| segment.virt == VirtAddr(0))
    {
        set_direct(kernel, ram);
    }
    // 0 is no address, also where kernels begin at 0.
    let lowest = arch::find(source.machine())?.kernel_start.max(1);
    let (mut found, mut left) = (Vec::new(), MAX_COMPARISONS);
    for segment in source.header_segments() {
        if segment.virt.0 >= lowest {
            add_pieces(&mut found, segment, ram, &mut left);
        }
    }
    if let Some(image) = kernel.and_then(image) {
        let holds_image =
            |alias: &LoadSegment| image.virt.0.wrapping_sub(alias.virt.0) < alias.memory_size;
        if !found.iter().any(holds_image) {
            add_pieces(&mut found, &image, ram, &mut left);
        }
    }
    Ok(found)
}

/// Sets the place in the file of the segments that map RAM a second time: that of the RAM.
pub(crate) fn place(aliases: &mut [LoadSegment], ram: &[LoadSegment]) {
    for alias in aliases {
        let after = ram.partition_point(|segment| segment.physical <= alias.physical);
        let Some(holder) = after.checked_sub(1).and_then(|index| ram.get(index)) else {
            continue;
        };
        let inside = alias.physical.0 - holder.physical.0;
        alias.file_offset = holder.file_offset.saturating_add(inside);
        alias.file_size = alias
            .memory_size
            .min(holder.file_size.saturating_sub(inside));
    }
}

/// Adds the parts of `segment` that map RAM at other addresses than the segments in `ram`, of which
/// up to `left` are compared.
fn add_pieces(
    found: &mut Vec<LoadSegment>,
    segment: &LoadSegment,
    ram: &[LoadSegment],
    left: &mut usize,
) {
    let end = segment.physical.0.saturating_add(segment.memory_size);
    let end_of = |held: &LoadSegment| held.physical.0.saturating_add(held.memory_size);
    let from = ram.partition_point(|held| end_of(held) <= segment.physical.0);
    for held in &ram[from..] {
        if held.physical.0 >= end || found.len() >= MAX_ALIASES || *left == 0 {
            break;
        }
        *left -= 1;
        let physical = held.physical.max(segment.physical);
        let virt = |of: &LoadSegment| {
            of.virt
                .0
                .wrapping_add(physical.0.wrapping_sub(of.physical.0))
        };
        let has_data = physical.0 - held.physical.0 < held.file_size;
        if virt(held) != virt(segment) && has_data {
            found.push(LoadSegment {
                file_offset: 0,
                file_size: 0,
                physical,
                virt: VirtAddr(virt(segment)),
                memory_size: end.min(end_of(held)) - physical.0,
            });
        }
    }
}

/// Sets the direct-mapping addresses of RAM segments, where the page tables agree at both ends
/// of the segment.
fn set_direct(kernel: &Kernel, ram: &mut [LoadSegment]) {
    let Some(base) = direct_base(kernel) else {
        return;
    };
    for segment in ram.iter_mut().filter(|segment| segment.memory_size > 0) {
        let start = base.wrapping_add(segment.physical.0);
        let agrees = |offset: u64| {
            let expected = segment.physical.0.wrapping_add(offset);
            physical(kernel, VirtAddr(start.wrapping_add(offset))) == Some(PhysAddr(expected))
        };
        if agrees(0) && agrees(segment.memory_size - 1) {
            segment.virt = VirtAddr(start);
        }
    }
}

/// Returns the kernel image, as far as it is contiguous from `_stext`.
fn image(kernel: &Kernel) -> Option<LoadSegment> {
    let start = kernel.info().symbol("_stext")?;
    let page_size = 1_u64 << kernel.source().page_shift();
    let virt = VirtAddr(start.0 / page_size * page_size);
    let first = physical(kernel, virt)?;
    let mut len = 0_u64;
    for _ in 0..MAX_MAPPINGS {
        let leaf = virt.checked_add(len).map(|at| kernel.translate(at));
        match leaf {
            Some(Ok(Some(leaf)))
                if leaf.len > 0 && leaf.physical.0 == first.0.wrapping_add(len) =>
            {
                len = len.saturating_add(leaf.len);
            }
            _ => break,
        }
    }
    let len = len / page_size * page_size;
    (len > 0).then_some(LoadSegment {
        file_offset: 0,
        file_size: 0,
        physical: first,
        virt,
        memory_size: len,
    })
}

/// Returns the offset of the direct mapping (PAGE_OFFSET on x86-64, which KASLR moves). It is
/// derived from an object that is known to lie in the direct mapping: the roots of mem_section,
/// else the first node's pglist_data.
fn direct_base(kernel: &Kernel) -> Option<u64> {
    let info = kernel.info();
    let node = || kernel.read_u64("node_data", info.symbol("node_data")?).ok();
    let known = [info.symbol("mem_section").map(|at| at.0), node()];
    let mut known = known.into_iter().flatten();
    known.find_map(|at| Some(at.wrapping_sub(physical(kernel, VirtAddr(at))?.0)))
}

fn physical(kernel: &Kernel, address: VirtAddr) -> Option<PhysAddr> {
    let leaf = kernel.translate(address).ok()??;
    Some(leaf.physical)
}
