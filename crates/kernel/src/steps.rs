//! A bound on the work that untrusted data can cause.
//!
//! A dump names counts and references, and a walk that follows them takes the product of two
//! counts, or the same data again and again. Each such walk takes its steps from a [`Steps`],
//! whose number depends on the size of the dump's memory: an intact structure has memory of its
//! own for everything that is read in it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of steps that are left. Threads may share it.
#[derive(Debug)]
pub struct Steps(AtomicU64);

impl Steps {
    /// Allows `most` steps.
    pub const fn new(most: u64) -> Self {
        Self(AtomicU64::new(most))
    }

    /// Takes `count` steps; returns false, and takes none, if fewer are left.
    pub fn take(&self, count: u64) -> bool {
        let order = Ordering::Relaxed;
        let rest = |left: u64| left.checked_sub(count);
        self.0.fetch_update(order, order, rest).is_ok()
    }

    /// Allows `count` more steps.
    pub fn add(&self, count: u64) {
        let order = Ordering::Relaxed;
        let sum = |left: u64| Some(left.saturating_add(count));
        // The closure always returns a value.
        let _ = self.0.fetch_update(order, order, sum);
    }

    /// Number of steps that are left.
    pub fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_completely_or_not_at_all() {
        let steps = Steps::new(5);
        assert!(steps.take(3) && !steps.take(3) && steps.take(2));
        assert!(!steps.take(1) && steps.take(0));
        steps.add(u64::MAX);
        steps.add(u64::MAX);
        assert_eq!(steps.left(), u64::MAX);
    }
}
