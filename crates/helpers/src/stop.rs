//! Tells all helpers to stop.

use crate::sync::{Arc, AtomicBool, Ordering};

/// A wish to stop, shared by everyone who works on the same thing. Helpers
/// look at it between chunks and end early, without an error of their own.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    set: Arc<AtomicBool>,
}

impl Stop {
    /// Not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks all to stop.
    pub fn set(&self) {
        self.set.store(true, Ordering::Release);
    }

    /// Whether somebody asked.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// The flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.set)
    }
}
