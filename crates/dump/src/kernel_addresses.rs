//! The virtual addresses at which a kernel maps its RAM, for a core whose source has none: gdb
//! finds memory only by the addresses in the program headers.

use bigiron_format::elf::LoadSegment;
use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::Kernel;

/// Maximum number of mappings of the kernel image: 1 GiB (KERNEL_IMAGE_SIZE) in pages of 4 KiB.
const MAX_MAPPINGS: usize = 1 << 18;

/// Sets the direct-mapping addresses of RAM segments, where the page tables agree at both ends
/// of the segment.
pub(crate) fn set_direct(kernel: &Kernel, ram: &mut [LoadSegment]) {
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
pub(crate) fn image(kernel: &Kernel) -> Option<LoadSegment> {
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
