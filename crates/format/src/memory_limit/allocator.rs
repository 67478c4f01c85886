//! An allocator that counts the bytes in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::limit::limit;

/// Bytes beyond the limit at which the handler is called. Buffers of fixed size are allocated
/// without a check, and must not end the program while a parser reports an error.
const MARGIN: u64 = 32 << 20;

static USED: AtomicUsize = AtomicUsize::new(0);

/// Bytes in use; 0 in a program with another allocator.
pub(super) fn used() -> u64 {
    USED.load(Ordering::Relaxed) as u64
}

/// The system's allocator, with a count of the bytes in use.
#[derive(Debug)]
pub struct CountingAllocator {
    exceeded: fn(limit: u64),
}

impl CountingAllocator {
    /// Creates an allocator that calls `exceeded` with the limit, in bytes, when more is in use.
    /// The handler must not allocate memory. If it returns, the memory is allocated.
    pub const fn new(exceeded: fn(limit: u64)) -> Self {
        Self { exceeded }
    }

    fn add(&self, bytes: usize) {
        let before = USED.fetch_add(bytes, Ordering::Relaxed) as u64;
        let limit = limit();
        if before.saturating_add(bytes as u64) > limit.saturating_add(MARGIN) {
            (self.exceeded)(limit);
        }
    }

    fn subtract(bytes: usize) {
        USED.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: all calls are passed to the system's allocator unchanged; counting allocates nothing
// and does not unwind.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size.checked_sub(layout.size()) {
            Some(more) => self.add(more),
            None => Self::subtract(layout.size() - size),
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
