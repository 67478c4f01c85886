//! A limit on the bytes written per second.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bigiron_helpers::Stop;

/// Shorter sleeps are skipped; the next write makes up for them.
const MIN_SLEEP: Duration = Duration::from_millis(1);
/// Maximum time until a signal is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// A limit on the bytes written per second. A write takes as long as on a disk of that speed:
/// writers take turns.
pub struct Pace<'a> {
    bytes_per_second: NonZeroU64,
    stop: &'a Stop,
    /// Time at which a disk of that speed has finished all writes.
    free_at: Mutex<Instant>,
    /// Bytes written under the limit.
    bytes: AtomicU64,
}

impl<'a> Pace<'a> {
    /// Creates a limit; waiting ends once `stop` is set.
    pub fn new(bytes_per_second: NonZeroU64, stop: &'a Stop) -> Self {
        Self {
            bytes_per_second,
            stop,
            free_at: Mutex::new(Instant::now()),
            bytes: AtomicU64::new(0),
        }
    }

    /// Takes a turn for a write of `bytes`; returns the time at which it ends.
    pub fn take_turn(&self, bytes: u64) -> Instant {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let nanoseconds =
            u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        let duration = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(Instant::now()) + duration;
        *free_at
    }

    /// Waits for the end of a turn.
    pub fn wait_until(&self, end: Instant) {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left < MIN_SLEEP || self.stop.is_set() {
                return;
            }
            thread::sleep(left.min(MAX_SLEEP));
        }
    }

    /// Returns the bytes written under the limit.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_each_other_and_have_the_length_of_the_limit() {
        let stop = Stop::new();
        let limit = NonZeroU64::new(1 << 20).unwrap_or(NonZeroU64::MIN);
        let pace = Pace::new(limit, &stop);
        let first = pace.take_turn(1 << 20);
        assert_eq!(pace.take_turn(1 << 19) - first, Duration::from_millis(500));
        let end = pace.take_turn(1 << 22);
        assert_eq!(end - first, Duration::from_millis(4500));
        // A dump that is to stop does not wait for its turn.
        stop.set();
        pace.wait_until(end + Duration::from_secs(3600));
    }
}
