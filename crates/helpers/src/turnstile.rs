//! Passage of helpers one after the other, in the order of their chunks.

use crate::stop::Stop;
use crate::sync::{Condvar, Mutex, lock, wait_and_look_again};

/// Orders the results of chunks that helpers finish in any order.
///
/// A helper that arrives early waits, so at most one result per helper is held back: memory
/// stays bounded. Chunks must be taken in order from one [`crate::WorkCursor`]; then the helper
/// with the lowest one never waits.
#[derive(Debug, Default)]
pub struct Turnstile {
    next: Mutex<u64>,
    moved: Condvar,
}

impl Turnstile {
    /// Creates a turnstile at which chunk 0 is the first.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `action` once all chunks before `chunk` have passed. `None` if the work was stopped
    /// before.
    pub fn pass<T>(&self, chunk: u64, stop: &Stop, action: impl FnOnce() -> T) -> Option<T> {
        let mut next = lock(&self.next);
        while *next != chunk {
            if stop.is_set() {
                return None;
            }
            (next, _) = wait_and_look_again(&self.moved, next);
        }
        let value = action();
        *next += 1;
        drop(next);
        self.moved.notify_all();
        Some(value)
    }

    /// In a model: the timeout of all waiting threads. See [`crate::sync::time_passes`].
    #[cfg(loom)]
    pub fn time_passes(&self) {
        crate::sync::time_passes(&self.next, &self.moved);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{WorkCursor, run};

    #[test]
    fn results_are_ordered_by_chunk() {
        let (cursor, stop, turnstile) = (WorkCursor::new(2000), Stop::new(), Turnstile::new());
        let out = Mutex::new(Vec::new());
        run(6, &stop, |_| {
            while let Some(chunk) = cursor.take(&stop) {
                turnstile.pass(chunk, &stop, || out.lock().unwrap().push(chunk));
            }
            Ok::<_, ()>(())
        })
        .unwrap();
        assert!(out.into_inner().unwrap().into_iter().eq(0..2000));
    }

    #[test]
    fn stop_wakes_all_waiters() {
        let (stop, turnstile) = (Stop::new(), Turnstile::new());
        stop.set();
        assert_eq!(turnstile.pass(5, &stop, || ()), None);
    }
}
