//! Limits that every target observes: of the memory that it allocates, and of the bytes that it
//! reads. Both are counts, which do not depend on the machine's speed.

#![allow(
    unsafe_code,
    reason = "a global allocator can be implemented in no other way"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use bigiron_format::ReadAt;

/// Most bytes that a whole dump may take in addition to its own: caches, buffers, an index.
pub const DUMP_MEMORY: usize = 320 << 20;
/// Most bytes that a table of the kernel may take, such as its symbols.
pub const TABLE_MEMORY: usize = 96 << 20;
/// Bytes of memory allowed for each byte of the input.
const MEMORY_PER_BYTE: usize = 64;
/// Bytes that may be read of a dump: in any case, and for each of its own.
const READ: u64 = 32 << 20;
const READ_PER_BYTE: u64 = 64;
/// Cost of a read in addition to its bytes.
const CALL: u64 = 64;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the bytes that are in use.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn add(size: usize) {
    PEAK.fetch_max(NOW.fetch_add(size, Relaxed) + size, Relaxed);
}

// SAFETY: all requests go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Runs `act` on an input of `input` bytes.
///
/// # Panics
/// If it allocates more than `most` bytes, and some for each byte of the input, at a time.
pub fn within<T>(most: usize, input: usize, act: impl FnOnce() -> T) -> T {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = act();
    let taken = PEAK.load(Relaxed).saturating_sub(before);
    let allowed = most + MEMORY_PER_BYTE * input;
    assert!(
        taken <= allowed,
        "{taken} bytes allocated, allowed are {allowed}"
    );
    result
}

/// An amount of work that is left: bytes that may still be read.
#[derive(Debug)]
pub struct Budget(AtomicU64);

impl Budget {
    /// Creates a budget for `bytes` bytes, with the cost of their calls.
    pub const fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Creates the budget of a dump of this size.
    pub fn of_dump(size: u64) -> Self {
        Self::new(READ + READ_PER_BYTE * size)
    }

    /// Sets the budget to `bytes`.
    pub fn reset(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }

    /// Takes the cost of a read.
    ///
    /// # Panics
    /// If nothing is left.
    pub fn take(&self, len: usize) {
        let cost = CALL + len as u64;
        let left = self.0.load(Relaxed);
        assert!(left >= cost, "work out of proportion to the input");
        self.0.store(left - cost, Relaxed);
    }
}

/// A file of which no more is read than is in proportion to its size.
pub struct Metered<R> {
    file: R,
    left: Budget,
}

impl<R: ReadAt> Metered<R> {
    /// Limits the reads of a file.
    pub fn new(file: R) -> Self {
        let left = Budget::of_dump(file.size());
        Self { file, left }
    }
}

impl<R: ReadAt> ReadAt for Metered<R> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let result = self.file.read_at(offset, buf);
        self.left.take(result.as_ref().map_or(0, |count| *count));
        result
    }

    fn size(&self) -> u64 {
        self.file.size()
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.file.next_data(offset)
    }

    fn next_hole(&self, offset: u64) -> u64 {
        self.file.next_hole(offset)
    }
}
