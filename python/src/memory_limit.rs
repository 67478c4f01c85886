//! The limit of memory that dumps can make this module allocate.
//!
//! The memory of Python itself and of other modules does not count. Parsers return an error before
//! they exceed the limit. Memory that no parser checks is only counted: without it Rust ends the
//! process, and with it the program's other work.

use bigiron_format::memory_limit::{self, CountingAllocator, DEFAULT_BASE, PER_READER, Share};
use bigiron_kernel::Source;
use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new(|_limit| {});

/// The memory that one dump may take whatever it claims, as long as it is open.
pub struct DumpMemory {
    shares: Vec<Share>,
}

impl DumpMemory {
    /// Begins to open a dump whose cache takes `cache` bytes.
    pub fn new(cache: u64) -> Self {
        // Each dump adds its own.
        memory_limit::set_base(0);
        Self {
            shares: vec![Share::new(DEFAULT_BASE.saturating_add(cache))],
        }
    }

    /// Adds the buffers of all readers of an opened dump.
    pub fn add_readers(&mut self, source: &Source) {
        let readers = source.memory().parallel_readers() as u64;
        self.shares
            .push(Share::new(readers.saturating_mul(PER_READER)));
    }
}

/// Limits the memory of all dumps together to `size` bytes; None returns to the default, which
/// grows with the dumps that are open.
#[pyfunction]
pub fn set_memory_limit(size: Option<u64>) {
    memory_limit::set_fixed(size);
}
