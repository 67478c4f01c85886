//! Hands out chunks of work, in order, to whoever asks first.

use crate::stop::Stop;
use crate::sync::{AtomicU64, Ordering};

/// Numbers from 0 up to a limit, each given to exactly one helper.
///
/// There should be many more chunks than helpers, so that a helper with an
/// expensive chunk does not keep the others waiting at the end.
#[derive(Debug)]
pub struct WorkCursor {
    next: AtomicU64,
    end: u64,
}

// Not an iterator: it is shared, and all that is asked of it is the next number.
#[allow(clippy::should_implement_trait)]
impl WorkCursor {
    /// Hands out `0..end`.
    pub fn new(end: u64) -> Self {
        Self {
            next: AtomicU64::new(0),
            end,
        }
    }

    /// The next chunk; `None` when all are taken or the work was stopped.
    pub fn take(&self, stop: &Stop) -> Option<u64> {
        if stop.is_set() {
            return None;
        }
        self.next()
    }

    /// The next chunk; `None` when all are taken.
    pub fn next(&self) -> Option<u64> {
        // Chunks carry no data from one helper to another: the number alone counts.
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        (chunk < self.end).then_some(chunk)
    }
}
