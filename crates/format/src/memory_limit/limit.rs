//! The limit, in bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Default base in bytes. The symbols and types of a kernel take about 40 MiB.
pub const DEFAULT_BASE: u64 = 256 << 20;

/// Buffers of one reader of a dump, in bytes: a chunk and its compressed data.
pub const PER_READER: u64 = 32 << 20;

/// The limit without additions, in bytes.
static BASE: AtomicU64 = AtomicU64::new(DEFAULT_BASE);
/// What is added to it, in bytes.
static SHARES: AtomicU64 = AtomicU64::new(0);
/// Maximum of one addition in bytes, so that the sum does not wrap: the file of the running
/// kernel's memory has 128 TiB.
const MAX_SHARE: u64 = 1 << 48;
/// The user's limit in bytes, which replaces the other two; 0 if there is none.
static FIXED: AtomicU64 = AtomicU64::new(0);

/// Sets the limit without additions, in bytes.
pub fn set_base(bytes: u64) {
    BASE.store(bytes, Ordering::Relaxed);
}

/// Sets the limit in bytes whatever is added; `None` returns to the default.
pub fn set_fixed(bytes: Option<u64>) {
    FIXED.store(bytes.map_or(0, |bytes| bytes.max(1)), Ordering::Relaxed);
}

/// An addition to the limit as long as this exists, such as the size of an open file.
#[derive(Debug)]
pub struct Share(u64);

impl Share {
    /// Adds `bytes`, at most 256 TiB.
    pub fn new(bytes: u64) -> Self {
        let bytes = bytes.min(MAX_SHARE);
        SHARES.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        SHARES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The limit of all memory of this process, in bytes.
pub fn limit() -> u64 {
    match FIXED.load(Ordering::Relaxed) {
        0 => BASE
            .load(Ordering::Relaxed)
            .saturating_add(SHARES.load(Ordering::Relaxed)),
        fixed => fixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_ends_with_its_value() {
        let before = limit();
        let shares = [Share::new(1000), Share::new(u64::MAX)];
        assert_eq!(limit(), before + 1000 + MAX_SHARE);
        drop(shares);
        assert_eq!(limit(), before);
    }
}
