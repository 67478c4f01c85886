//! The limit of memory that an untrusted file can make its readers allocate.
//!
//! Counts and sizes in a file may be damaged or forged. The limit is one number for the process,
//! and the memory in use is counted where all memory comes from: in the allocator. A parser that
//! is about to allocate what a file demands calls [`check`], which returns an error that names
//! the data. A parser that does not is still bounded, because [`CountingAllocator`] calls the
//! program's own handler when the limit is exceeded.
//!
//! By default the limit is a base plus the sizes of the files that are open.

mod allocator;
mod limit;

pub use allocator::CountingAllocator;
pub use limit::{DEFAULT_BASE, PER_READER, Share, limit, set_base, set_fixed};

/// A file demands more memory than the limit allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} would take {needed} bytes of memory, and {available} of {limit} are available: the \
     file is damaged, or needs a greater limit (--memory-limit; in Python set_memory_limit)"
)]
pub struct MemoryLimitExceeded {
    /// The data that would take the memory.
    pub what: &'static str,
    /// Its size in memory, in bytes.
    pub needed: u64,
    /// Bytes below the limit that are not in use.
    pub available: u64,
    /// The limit in bytes.
    pub limit: u64,
}

/// Returns an error if `bytes` more would exceed the limit. `what` names the data.
pub fn check(what: &'static str, bytes: u64) -> Result<(), MemoryLimitExceeded> {
    let limit = limit();
    let available = limit.saturating_sub(allocator::used());
    if bytes <= available {
        return Ok(());
    }
    Err(MemoryLimitExceeded {
        what,
        needed: bytes,
        available,
        limit,
    })
}
