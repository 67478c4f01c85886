//! Reports what a dump waits for when it makes no progress.
//!
//! A hanging disk or network is the usual reason for a capture that never ends, and a silent
//! console does not show which one it was.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bigiron_dump::{OutputCall, Phase, Progress};

use crate::background::Background;
use crate::tell::tell;

/// Maximum time between two checks.
const TICK: Duration = Duration::from_secs(1);

/// Watches `progress` and reports on standard error after `interval` without progress,
/// again each time that the period has doubled, and when it continues. `source` and `output`
/// are their names.
pub fn begin(
    progress: &Arc<Progress>,
    interval: Duration,
    source: String,
    output: String,
) -> Background {
    let progress = Arc::clone(progress);
    Background::begin("watchdog", move |ticks| {
        let mut watch = Watch::new(interval, source, output, Instant::now());
        while ticks.wait(TICK.min(interval / 2)) {
            if let Some(text) = watch.look(Instant::now(), &State::of(&progress)) {
                tell!("bigiron: {text}");
            }
        }
        // The dump may have resumed and finished between two checks.
        if let Some(text) = watch.end(Instant::now(), &State::of(&progress)) {
            tell!("bigiron: {text}");
        }
    })
}

/// The observed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    phase: Phase,
    done: u64,
    written: u64,
    writing: u32,
    syncing: u32,
}

impl State {
    fn of(progress: &Progress) -> Self {
        Self {
            phase: progress.phase(),
            done: progress.frames().0,
            written: progress.written(),
            writing: progress.in_flight(OutputCall::Write),
            syncing: progress.in_flight(OutputCall::Sync),
        }
    }

    fn moved_since(&self, before: &Self) -> bool {
        (self.phase, self.done, self.written) != (before.phase, before.done, before.written)
    }
}

struct Watch {
    interval: Duration,
    source: String,
    output: String,
    last: Option<State>,
    moved: Instant,
    /// Duration of the stall at which the next report is due.
    next: Duration,
}

impl Watch {
    fn new(interval: Duration, source: String, output: String, now: Instant) -> Self {
        Self {
            interval,
            source,
            output,
            last: None,
            moved: now,
            next: interval,
        }
    }

    /// Returns the report that is due, if any.
    fn look(&mut self, now: Instant, state: &State) -> Option<String> {
        let still = now.duration_since(self.moved);
        if self.last.is_none_or(|last| state.moved_since(&last)) {
            self.last = Some(*state);
            self.moved = now;
            let was_reported = self.next > self.interval;
            self.next = self.interval;
            return was_reported.then(|| format!("progress resumed after {} s", still.as_secs()));
        }
        if still < self.next {
            return None;
        }
        self.next = still * 2;
        Some(self.complaint(still, state))
    }

    /// Returns the final report when the work has ended.
    fn end(&mut self, now: Instant, state: &State) -> Option<String> {
        let moved = self.last.is_some_and(|last| state.moved_since(&last));
        if moved { self.look(now, state) } else { None }
    }

    fn complaint(&self, still: Duration, state: &State) -> String {
        let mut text = format!(
            "no progress for {} s in phase \"{}\": ",
            still.as_secs(),
            state.phase.name()
        );
        // Writing to a String does not fail.
        let _ = match (state.syncing, state.writing) {
            (0, 0) => write!(text, "waiting for reads of {}", self.source),
            (0, 1) => write!(text, "a write to {} does not return", self.output),
            (0, many) => write!(text, "{many} writes to {} do not return", self.output),
            _ => write!(
                text,
                "{} has not confirmed that all written data is on it",
                self.output
            ),
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: State = State {
        phase: Phase::Copying,
        done: 7,
        written: 9,
        writing: 0,
        syncing: 0,
    };

    fn watch(begin: Instant) -> Watch {
        let (source, output) = ("/proc/vmcore".into(), "/mnt/vmcore".into());
        Watch::new(Duration::from_secs(10), source, output, begin)
    }

    #[test]
    fn stalls_are_reported_at_doubling_intervals() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        let at = |seconds| begin + Duration::from_secs(seconds);
        let said: Vec<u64> = (0..100)
            .filter(|second| watch.look(at(*second), &IDLE).is_some())
            .collect();
        assert_eq!(said, [10, 20, 40, 80]);
        let moved = State { done: 8, ..IDLE };
        let text = watch.look(at(101), &moved).unwrap();
        assert_eq!(text, "progress resumed after 101 s");
        assert_eq!(watch.look(at(102), &moved), None);
        assert_eq!(watch.look(at(110), &moved), None);
        assert!(watch.look(at(111), &moved).is_some());
        assert_eq!(watch.end(at(112), &moved), None, "there was no progress");
        let again = State { done: 9, ..IDLE };
        assert!(watch.end(at(112), &again).is_some());
    }

    #[test]
    fn progress_is_not_reported() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        for second in 0..100 {
            let state = State {
                written: second / 9,
                ..IDLE
            };
            assert_eq!(
                watch.look(begin + Duration::from_secs(second), &state),
                None
            );
        }
    }

    #[test]
    fn report_names_the_blocked_operation() {
        let watch = watch(Instant::now());
        let text = |state| watch.complaint(Duration::from_secs(12), &state);
        assert_eq!(
            text(IDLE),
            "no progress for 12 s in phase \"copy\": waiting for reads of /proc/vmcore"
        );
        assert!(
            text(State { writing: 1, ..IDLE }).ends_with("a write to /mnt/vmcore does not return")
        );
        assert!(text(State { writing: 3, ..IDLE }).contains("3 writes to /mnt/vmcore"));
        let syncing = State {
            phase: Phase::Finishing,
            syncing: 1,
            ..IDLE
        };
        assert!(text(syncing).contains("/mnt/vmcore has not confirmed"));
    }
}
