//! Where a kernel maps its RAM, for headers of a core whose source does not tell:
//! gdb reads memory by the virtual addresses in them alone.

use bigiron_format::elf::LoadSegment;
use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::Kernel;

/// The kernel's image is mapped by as many pieces at most: 1 GiB (KERNEL_IMAGE_SIZE)
/// in pages of 4 KiB.
const MOST_PIECES: usize = 1 << 18;

/// Gives segments of RAM their addresses in the kernel's direct mapping, as far as
/// its page tables agree at both ends of a segment.
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

/// The kernel's image, as far as it hangs together from `_stext` on.
pub(crate) fn image(kernel: &Kernel) -> Option<LoadSegment> {
    let start = kernel.info().symbol("_stext")?;
    let page_size = 1_u64 << kernel.source().page_shift();
    let virt = VirtAddr(start.0 / page_size * page_size);
    let first = physical(kernel, virt)?;
    let mut len = 0_u64;
    for _ in 0..MOST_PIECES {
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

/// What the direct mapping adds to a physical address (PAGE_OFFSET on x86-64, which
/// KASLR moves). Told by what is known to lie in it: the roots of mem_section, else
/// the first node's pglist_data.
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
