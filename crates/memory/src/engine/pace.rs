//! Number of active helpers, which grows as long as throughput rises.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::word::Word;

/// Helpers at the start; this many are worthwhile on any machine.
const FIRST: u32 = 4;
/// Time for which a number of helpers is measured before the next step.
const WATCH: Duration = Duration::from_millis(10);
/// Throughput that twice the helpers must reach, in per cent; below it no more are added.
/// Beyond the memory bandwidth they only slow each other down.
const WORTH: u64 = 120;

/// Flag in [`Pace::gate`]: the limit is final.
const SETTLED: u32 = 1 << 31;

/// Admits helpers by number; the limit grows as long as throughput rises.
#[derive(Debug)]
pub(super) struct Pace {
    helpers: u32,
    /// Limit: helpers with lower numbers work, the others wait for a change. It shares a word
    /// with [`SETTLED`], so that none waits for a change that has already happened.
    gate: Word,
    /// The highest limit so far.
    most: AtomicU32,
    /// Used by the caller alone: bytes and nanoseconds at the start of the measurement, and the
    /// last rate.
    watch_bytes: AtomicU64,
    watch_began: AtomicU64,
    last_rate: AtomicU64,
}

impl Pace {
    pub(super) fn new(helpers: usize) -> Self {
        let helpers = u32::try_from(helpers).unwrap_or(1).min(SETTLED - 1);
        let first = helpers.min(FIRST);
        let settled = if first == helpers { SETTLED } else { 0 };
        Self {
            helpers,
            gate: Word::new(first | settled),
            most: AtomicU32::new(first),
            watch_bytes: AtomicU64::new(0),
            watch_began: AtomicU64::new(0),
            last_rate: AtomicU64::new(0),
        }
    }

    /// True if the helper with this number may take a slice. Waits until that is decided.
    pub(super) fn may_work(&self, number: usize) -> bool {
        loop {
            let gate = self.gate.get();
            if (number as u64) < u64::from(gate & !SETTLED) {
                return true;
            }
            if gate & SETTLED != 0 {
                return false;
            }
            self.gate.wait(gate);
        }
    }

    /// Sets the limit from the `bytes` done by the time `now`. Called by one helper only.
    pub(super) fn look(&self, bytes: u64, now: Duration) {
        let gate = self.gate.get();
        if gate & SETTLED != 0 {
            return;
        }
        let now = now.as_nanos() as u64;
        let began = self.watch_began.load(Ordering::Relaxed);
        if began == 0 {
            self.watch(bytes, now);
            return;
        }
        let elapsed = now.saturating_sub(began);
        if elapsed < WATCH.as_nanos() as u64 {
            return;
        }
        let done = bytes.saturating_sub(self.watch_bytes.load(Ordering::Relaxed));
        // Thousandths of a byte per microsecond: precise enough, and far from overflow.
        let rate = done.saturating_mul(1000) / (elapsed / 1000).max(1);
        let last = self.last_rate.swap(rate, Ordering::Relaxed);
        let limit = gate;
        if last != 0 && rate.saturating_mul(100) < last.saturating_mul(WORTH) {
            // The last doubling gained little: half as many are as fast.
            let best = if rate < last {
                (limit / 2).max(1)
            } else {
                limit
            };
            self.change(gate, best | SETTLED);
        } else if limit >= self.helpers {
            self.change(gate, limit | SETTLED);
        } else {
            self.change(gate, limit.saturating_mul(2).min(self.helpers));
            self.watch(bytes, now);
        }
    }

    /// Releases all waiting helpers without work.
    pub(super) fn end(&self) {
        self.gate.set(SETTLED);
        self.gate.wake_all();
    }

    /// Returns the maximum number of helpers admitted so far.
    pub(super) fn most_at_work(&self) -> usize {
        self.most.load(Ordering::Relaxed) as usize
    }

    fn watch(&self, bytes: u64, now: u64) {
        self.watch_bytes.store(bytes, Ordering::Relaxed);
        self.watch_began.store(now.max(1), Ordering::Relaxed);
    }

    /// Changes the gate if it still has the value `seen`; does nothing if the operation has
    /// ended.
    fn change(&self, seen: u32, gate: u32) {
        if self.gate.change(seen, gate) {
            self.most.fetch_max(gate & !SETTLED, Ordering::Relaxed);
            self.gate.wake_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn after(milliseconds: u64) -> Duration {
        Duration::from_millis(1 + milliseconds)
    }

    #[test]
    fn helpers_are_added_while_throughput_rises() {
        let pace = Pace::new(16);
        assert!(pace.may_work(3));
        pace.look(0, after(0));
        pace.look(100 << 20, after(10));
        assert_eq!(pace.gate.get() & !SETTLED, 8);
        pace.look(300 << 20, after(20));
        assert_eq!(pace.gate.get() & !SETTLED, 16);
        assert!(pace.may_work(15));
        assert_eq!(pace.most_at_work(), 16);
    }

    #[test]
    fn helpers_that_slow_the_work_are_released() {
        let pace = Pace::new(16);
        pace.look(0, after(0));
        pace.look(100 << 20, after(10));
        pace.look(190 << 20, after(20));
        assert_eq!(pace.gate.get() & !SETTLED, 4);
        assert!(pace.may_work(3));
        assert!(!pace.may_work(4));
    }

    #[test]
    fn small_gain_stops_the_growth() {
        let pace = Pace::new(64);
        pace.look(0, after(0));
        pace.look(100 << 20, after(10));
        pace.look(210 << 20, after(20));
        assert_eq!(pace.gate.get() & !SETTLED, 8);
        assert!(!pace.may_work(8));
    }

    #[test]
    fn few_helpers_start_and_the_end_releases_the_waiting_ones() {
        let pace = Pace::new(2);
        assert!(pace.may_work(1));
        let pace = Pace::new(8);
        pace.end();
        assert!(!pace.may_work(7));
    }
}

/// Tests all interleavings of the threads (`./test loom`).
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn after(milliseconds: u64) -> Duration {
        Duration::from_millis(1 + milliseconds)
    }

    /// A waiting helper is released or admitted, whichever happens first.
    #[test]
    fn no_helper_waits_forever() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(3));
        builder.check(|| {
            let pace = Arc::new(Pace::new(8));
            let waiting = [4, 7].map(|number| {
                let pace = Arc::clone(&pace);
                thread::spawn(move || {
                    let worked = pace.may_work(number);
                    pace.end();
                    worked
                })
            });
            pace.look(0, after(0));
            pace.look(100 << 20, after(10));
            pace.end();
            let worked = waiting.map(|thread| thread.join().unwrap());
            // Both were admitted by the same change, or neither.
            assert!(worked[0] || !worked[1]);
        });
    }
}
