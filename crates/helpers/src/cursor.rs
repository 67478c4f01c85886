//! Distribution of chunks of work, in order, to the next free helper.

use crate::stop::Stop;
use crate::sync::{AtomicU64, Ordering};

/// Numbers from 0 up to a limit, each returned to exactly one helper.
///
/// Use many more chunks than helpers, so that a helper with an expensive chunk does not keep
/// the others waiting at the end.
#[derive(Debug)]
pub struct WorkCursor {
    next: AtomicU64,
    end: u64,
}

// Not an iterator: it is shared, and only the next number is needed.
#[allow(clippy::should_implement_trait)]
impl WorkCursor {
    /// Creates a cursor over `0..end`.
    pub fn new(end: u64) -> Self {
        Self {
            next: AtomicU64::new(0),
            end,
        }
    }

    /// Takes the next chunk; `None` if all are taken or the work was stopped.
    pub fn take(&self, stop: &Stop) -> Option<u64> {
        if stop.is_set() {
            return None;
        }
        self.next()
    }

    /// Takes the next chunk; `None` if all are taken.
    pub fn next(&self) -> Option<u64> {
        // Chunks carry no data between helpers, so relaxed ordering suffices.
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        (chunk < self.end).then_some(chunk)
    }
}
