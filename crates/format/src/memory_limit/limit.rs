//! The limit, in bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Default base in bytes. The symbols and types of a kernel take about 40 MiB.
pub const DEFAULT_BASE: u64 = 256 << 20;

/// The limit without files, in bytes.
static BASE: AtomicU64 = AtomicU64::new(DEFAULT_BASE);
/// Sizes of the files that were opened, in bytes.
static FILES: AtomicU64 = AtomicU64::new(0);
/// The user's limit in bytes, which replaces the other two; 0 if there is none.
static FIXED: AtomicU64 = AtomicU64::new(0);

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
