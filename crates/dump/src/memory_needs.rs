//! Estimates of the memory that a dump needs.

use bigiron_kernel::IoMethod;

use crate::format::Format;
use crate::options::DumpOptions;
use crate::{kdump, vmdump};

/// Memory that all helpers share: the table of shared pages and the plan.
const SHARED_BYTES: u64 = 4 << 20;
/// A helper's buffers besides its codec's: a batch of pages and its data, the pages read at
/// once, the stack, and the page tables of a mapped window of /proc/vmcore, which take 144 KiB at
/// most. As measured, each further helper takes half of this.
const HELPER_BYTES: u64 = 2 << 20;
/// Additional memory of a mapped window of a file. A window of /proc/vmcore takes none but its
/// page tables, since that memory exists anyway.
const MAPPED_BYTES: u64 = (4 << 20) + (256 << 10);

/// Returns the memory that all helpers of a dump in `parts` parts share, and that each one needs.
/// `is_stream`: the parts are written sequentially.
pub fn memory_needed(
    format: &Format,
    parts: usize,
    is_stream: bool,
    options: &DumpOptions,
) -> (u64, u64) {
    let mapped = match options.io {
        IoMethod::Mmap => MAPPED_BYTES,
        _ => 0,
    };
    let (shared, per_helper) = match format {
        Format::Kdump { compression, .. } => {
            let (queue, context) = kdump::memory_needed(*compression, is_stream, options);
            // Each part has its own table of shared pages.
            let shared = (SHARED_BYTES + queue).saturating_mul(parts as u64);
            (shared, context)
        }
        Format::Elf { .. } => (SHARED_BYTES, 0),
        Format::Vmdump(compression) => {
            let (queues, chunks) = vmdump::memory_needed(*compression, parts, options);
            (SHARED_BYTES + queues, chunks)
        }
    };
    (shared, HELPER_BYTES + mapped + per_helper)
}
