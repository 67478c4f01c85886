//! The limit of memory that an untrusted file can make its readers allocate.
//!
//! Counts and sizes in a file may be damaged or forged. The limit is one number for the process,
//! and the memory in use is counted where all memory comes from: in the allocator. A parser that
//! is about to allocate what a file demands calls [`check`], which returns an error that names
//! the data. A parser that does not is still bounded, because [`CountingAllocator`] calls the
//! program's own handler when the limit is exceeded.
//!
//! By default the limit is a base plus the sizes of the files that were opened.

mod allocator;

use std::sync::atomic::{AtomicU64, Ordering};

pub use allocator::CountingAllocator;

/// Default base in bytes. The symbols and types of a kernel take about 40 MiB.
pub const DEFAULT_BASE: u64 = 256 << 20;

/// The limit without files, in bytes.
static BASE: AtomicU64 = AtomicU64::new(DEFAULT_BASE);
/// Sizes of the files that were opened, in bytes.
static FILES: AtomicU64 = AtomicU64::new(0);
/// The user's limit in bytes, which replaces the other two; 0 if there is none.
static FIXED: AtomicU64 = AtomicU64::new(0);

/// A file demands more memory than the limit allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} would take {needed} bytes of memory, and {available} of {limit} are available: the \
     file is damaged, or needs a greater --memory-limit"
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

/// Sets the limit without files, in bytes.
pub fn set_base(bytes: u64) {
    BASE.store(bytes, Ordering::Relaxed);
}

/// Sets the limit in bytes whatever the sizes of the files are; `None` returns to the default.
pub fn set_fixed(bytes: Option<u64>) {
    FIXED.store(bytes.map_or(0, |bytes| bytes.max(1)), Ordering::Relaxed);
}

/// Adds the size of a file that was opened, in bytes, without its holes.
pub fn add_file(bytes: u64) {
    // Saturates: the file of the running kernel's memory is 128 TiB.
    let _ = FILES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| {
        Some(sum.saturating_add(bytes))
    });
}

/// The limit of all memory of this process, in bytes.
pub fn limit() -> u64 {
    match FIXED.load(Ordering::Relaxed) {
        0 => BASE
            .load(Ordering::Relaxed)
            .saturating_add(FILES.load(Ordering::Relaxed)),
        fixed => fixed,
    }
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
