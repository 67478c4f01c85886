//! From which nodes of the machine memory comes.

use std::ffi::{c_int, c_void};

use bigiron_memory::Errno;
use bigiron_memory::segment::{Numa, sample_placement};

use crate::boundary::enter;
use crate::memory::whole_pages;

/// Looks at `samples` pages of memory, spread over it, and counts in `pages_of_node`, which has `nodes` places, from
/// which nodes of the machine they come; in `absent`, which may be NULL, those that are not there.
///
/// ERANGE: a page comes from a node beyond the places. ENOSYS: the kernel knows no nodes.
///
/// # Safety
/// `pages_of_node` has `nodes` places; `absent` is NULL or has one.
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
        // SAFETY: as the caller promises; zeros before, so that they may be read.
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
            // SAFETY: as the caller promises.
            unsafe { absent.write(found.absent as u64) };
        }
        Ok(())
    })
}

/// Nodes and samples: more of either tell nothing more.
const MAX_COUNT: usize = 1 << 20;
