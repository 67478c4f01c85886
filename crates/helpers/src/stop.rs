//! A flag that stops all helpers.

use crate::sync::{Arc, AtomicBool, Ordering};

/// A request to stop, shared by all threads of one operation. Helpers check it between chunks
/// and end early, without an error of their own.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    set: Arc<AtomicBool>,
}

impl Stop {
    /// Creates a flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests all helpers to stop.
    pub fn set(&self) {
        self.set.store(true, Ordering::Release);
    }

    /// True if a stop was requested.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Returns the flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.set)
    }
}
