//! Time that a thread works, waits and runs on a processor.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Clock of the thread that created it.
pub(super) struct ThreadClock {
    /// /proc/thread-self/schedstat, which not all kernels have.
    schedstat: Option<File>,
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    wall: Instant,
    processor: Duration,
    queued: Duration,
}

/// Time spent between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// Time running or blocked, but not waiting for a processor: the time that the work would
    /// take on an idle machine.
    pub(super) busy: Duration,
    /// Time on a processor.
    pub(super) processor: Duration,
}

impl ThreadClock {
    pub(super) fn new() -> Self {
        Self {
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    pub(super) fn now(&self) -> Moment {
        Moment {
            wall: Instant::now(),
            processor: clock_gettime(ClockId::ThreadCPUTime)
                .try_into()
                .unwrap_or_default(),
            queued: self.queued().unwrap_or_default(),
        }
    }

    pub(super) fn since(&self, begin: Moment) -> Spent {
        let end = self.now();
        let queued = end.queued.saturating_sub(begin.queued);
        Spent {
            busy: (end.wall - begin.wall).saturating_sub(queued),
            processor: end.processor.saturating_sub(begin.processor),
        }
    }

    /// Returns the time in the run queue: the second number of schedstat
    /// (Documentation/scheduler/sched-stats.rst).
    fn queued(&self) -> Option<Duration> {
        let mut text = [0; 64];
        let len = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        let nanoseconds = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_counts_as_busy_but_not_as_processor_time() {
        let clock = ThreadClock::new();
        let begin = clock.now();
        std::thread::sleep(Duration::from_millis(20));
        let spent = clock.since(begin);
        assert!(spent.busy >= Duration::from_millis(10), "{spent:?}");
        assert!(spent.processor < Duration::from_millis(10), "{spent:?}");
    }
}
