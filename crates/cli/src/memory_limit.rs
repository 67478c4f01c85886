//! The program's allocator, and the memory limits of its commands.

use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use bigiron_format::memory_limit::{self, CountingAllocator};
use bigiron_helpers::MemoryBudget;

use crate::errors::FAILED;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new(exceeded);

/// Minimum limit in bytes while a dump is opened, also if its helpers may use less.
const MIN_FOR_OPENING: u64 = 64 << 20;

/// True if exceeding the limit ends the program.
static ENFORCED: AtomicBool = AtomicBool::new(false);

/// Memory that a command uses whatever its dumps claim.
#[derive(Clone, Copy, Debug)]
pub struct ReadBuffers {
    /// Number of helpers that read the dumps.
    pub helpers: usize,
    /// Size of the page cache in bytes.
    pub cache: u64,
}

/// Limits the memory of a command that only reads dumps to `wanted` bytes; by default to an
/// amount that grows with the size of the dumps, in addition to `buffers`. Exceeding the limit
/// ends the program.
pub fn limit_reading(wanted: Option<u64>, buffers: ReadBuffers) {
    let helpers = (buffers.helpers as u64).saturating_mul(memory_limit::PER_READER);
    let base = memory_limit::DEFAULT_BASE.saturating_add(helpers);
    memory_limit::set_base(base.saturating_add(buffers.cache));
    memory_limit::set_fixed(wanted);
    ENFORCED.store(true, Ordering::Relaxed);
}

/// Limits the memory for opening a dump that is written again, as far as the user limited the
/// memory of the helpers. Exceeding the limit is an error of the parser that would exceed it; it
/// never ends the program, because that would cost a dump.
pub fn limit_opening(wanted: Option<u64>) {
    memory_limit::set_fixed(wanted.map(|bytes| bytes.max(MIN_FOR_OPENING)));
}

/// Ends [`limit_opening`]: helpers of `budget` begin to work.
pub fn opened(budget: MemoryBudget) {
    memory_limit::set_base(memory_limit::DEFAULT_BASE + budget.bytes());
    memory_limit::set_fixed(None);
}

/// Ends the program without allocating memory.
fn exceeded(limit: u64) {
    if !ENFORCED.load(Ordering::Relaxed) {
        return;
    }
    let mut text = Cursor::new([0; 256]);
    let _ = writeln!(
        text,
        "bigiron: the dump needs more than {} MiB of memory, which its size does not explain: it \
         is damaged, or needs a greater --memory-limit",
        limit >> 20
    );
    let len = text.position() as usize;
    let _ = rustix::io::write(rustix::stdio::stderr(), &text.get_ref()[..len]);
    // SAFETY: has no precondition. exit() would run handlers, which may allocate.
    unsafe { libc::_exit(FAILED.into()) };
}
