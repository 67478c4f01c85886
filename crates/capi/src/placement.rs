//! The NUMA nodes of memory.

use std::ffi::{c_int, c_void};

use bigiron_memory::Errno;
use bigiron_memory::segment::{Numa, sample_placement};

use crate::boundary::enter;
use crate::memory::whole_pages;

/// Samples `samples` pages spread over a range of memory, and counts the pages of each NUMA
/// node in `pages_of_node`, which has `nodes` elements. `absent`, which may be NULL, receives
/// the number of pages that are not present.
///
/// ERANGE: a page is on a node beyond the array. ENOSYS: the kernel does not support NUMA.
///
/// # Safety
/// `pages_of_node` must have `nodes` elements; `absent` must be NULL or point to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_placement(
    address: *const c_void,
    length: usize,
    samples: usize,
    pages_of_node: *mut u64,
    nodes: usize,
    absent: *mut u64,
) -> c_int {
    enter(|| {
        let region = whole_pages(address, length)?;
        if pages_of_node.is_null() || region.is_empty() || samples == 0 || nodes > MAX_COUNT {
            return Err(Errno::INVAL);
        }
        // SAFETY: by the caller's contract; the elements are zeroed before they are read.
        let places = unsafe {
            pages_of_node.write_bytes(0, nodes);
            std::slice::from_raw_parts_mut(pages_of_node, nodes)
        };
        let page = rustix::param::page_size();
        let found = sample_placement(region, page, samples.min(MAX_COUNT), &Numa::Local)?;
        for (node, pages) in found.nodes {
            *places.get_mut(node).ok_or(Errno::RANGE)? = pages as u64;
        }
        if !absent.is_null() {
            // SAFETY: by the caller's contract.
            unsafe { absent.write(found.absent as u64) };
        }
        Ok(())
    })
}

/// Maximum number of nodes and of samples. More samples are not more accurate.
const MAX_COUNT: usize = 1 << 20;
