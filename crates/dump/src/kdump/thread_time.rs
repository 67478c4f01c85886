//! What a thread did with its time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Measures the work of the thread that made it.
pub(super) struct ThreadClock {
    /// /proc/thread-self/schedstat; kernels may be without it.
    schedstat: Option<File>,
}

/// A moment in a thread's life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    wall: Instant,
    processor: Duration,
    queued: Duration,
}

/// What happened between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// Time at work or blocked, but not in wait for a processor: what the same
    /// would take if nobody else needed one.
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

    /// Time in the queue for a processor: the second number of schedstat
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
    fn sleep_is_busy_but_needs_no_processor() {
        let clock = ThreadClock::new();
        let begin = clock.now();
        std::thread::sleep(Duration::from_millis(20));
        let spent = clock.since(begin);
        assert!(spent.busy >= Duration::from_millis(10), "{spent:?}");
        assert!(spent.processor < Duration::from_millis(10), "{spent:?}");
    }
}
