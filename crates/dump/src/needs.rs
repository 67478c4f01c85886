//! The memory that a dump takes.

use bigiron_kernel::IoMethod;

use crate::options::{DumpOptions, OutputFormat, PageCompression};
use crate::{kdump, vmdump};

/// Memory that all helpers share: the table of shared pages and the plan.
const SHARED_BYTES: u64 = 4 << 20;
/// A helper's buffers beside its codec's: a unit of pages and its data, what it
/// reads at once, and its stack. Each further helper was seen to take half.
const HELPER_BYTES: u64 = 2 << 20;
/// What a mapped window of a file takes on top. One of /proc/vmcore takes
/// nothing: it shows memory that is there anyway.
const MAPPED_BYTES: u64 = 4 << 20;

/// Memory that all helpers of a dump in so many files share, and that each takes.
pub fn memory_needed(options: &DumpOptions, parts: usize) -> (u64, u64) {
    let mapped = if options.io == IoMethod::Mmap {
        MAPPED_BYTES
    } else {
        0
    };
    if options.format == OutputFormat::Vmdump {
        let chunks = vmdump::helper_bytes(options);
        let queued = match parts {
            0 | 1 => 0,
            parts => vmdump::parts_bytes(options, parts),
        };
        return (SHARED_BYTES + queued, HELPER_BYTES + mapped + chunks);
    }
    let contexts = match options.compression {
        PageCompression::Fixed(fixed) => fixed.context_bytes() as u64,
        PageCompression::Adaptive => kdump::adaptive_context_bytes(),
        PageCompression::Bzip2 => 0,
    };
    let is_stream = options.format == OutputFormat::Flattened || options.encrypt.is_some();
    let queued = if writes_behind(options) || is_stream {
        kdump::queue_bytes(options.threads)
    } else {
        0
    };
    // Each part has a table of shared pages of its own.
    let shared = (SHARED_BYTES + queued).saturating_mul(parts as u64);
    (shared, HELPER_BYTES + mapped + contexts)
}

/// Whether a writer of its own stands between the helpers and the output,
/// whatever that is.
pub fn writes_behind(options: &DumpOptions) -> bool {
    options.format.is_kdump()
        && (options.compression == PageCompression::Adaptive || options.write_limit.is_some())
}
