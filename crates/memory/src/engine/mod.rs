//! One operation over memory, shared among helpers.

mod pace;
mod processors;
mod word;

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use bigiron_helpers::{MAX_BARE_THREADS, WorkCursor, held_signals, run_bare};
use rustix::io::Errno;
use rustix::process::getpid;
use rustix::time::{ClockId, clock_gettime};

use crate::region::{JobRegion, Region, Slices};
use pace::Pace;
pub use processors::{Processors, prepare};

/// Default maximum number of helpers of one operation: enough for most of the speedup, few
/// enough to leave the rest of a large machine to others.
pub const MAX_HELPERS: usize = 16;

/// Default size of a slice, unless pages are larger: some hundred microseconds of work.
pub const SLICE: usize = 4 << 20;

/// Work that takes less time per MiB ends before helpers have started: tearing down page tables
/// of huge pages, or of empty memory. Page tables of 4 KiB pages take five times as long.
const QUICK_MIB: Duration = Duration::from_micros(6);
const MIB: f64 = (1 << 20) as f64;

/// Approximate maximum number of slices for memory that may be empty.
const MAX_SLICES: usize = 4096;

/// Settings for sharing an operation among helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of helpers, including the caller; 1 is the caller alone.
    pub helpers: usize,
    /// Size in bytes below which the caller works alone: starting helpers would take longer.
    pub straight_below: usize,
    /// Bytes that a helper takes at a time; a power of two.
    pub slice: usize,
    /// True if helpers run on all nodes when no policy names the nodes of the memory.
    pub spread: bool,
    /// For a caller that blocks all signals: the set of signals that were blocked before, with
    /// bit 0 for signal 1. They do not end an operation early.
    pub held_back: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            helpers: MAX_HELPERS,
            straight_below: 8 << 20,
            slice: SLICE,
            spread: false,
            held_back: None,
        }
    }
}

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of completed slices.
    pub bytes: usize,
    /// Bytes requested.
    pub wanted: usize,
    /// Number of helpers that worked, including the caller.
    pub helpers: usize,
    /// Time from the start to the end of the operation.
    pub elapsed: Duration,
    /// Total working time of all helpers.
    pub busy: Duration,
    /// The first error of a slice; it ended the operation early.
    pub error: Option<Errno>,
}

impl Outcome {
    /// Returns the additional time that one helper would have taken, at the same speed.
    pub fn saved(&self) -> Duration {
        self.busy.saturating_sub(self.elapsed)
    }

    /// Returns the error, if there was one.
    pub fn result(self) -> Result<Self, Errno> {
        self.error.map_or(Ok(self), Err)
    }

    /// Combines the outcomes of two operations, one after the other.
    pub fn then(self, next: Self) -> Self {
        Self {
            bytes: self.bytes.max(next.bytes),
            wanted: self.wanted.max(next.wanted),
            helpers: self.helpers.max(next.helpers),
            elapsed: self.elapsed + next.elapsed,
            busy: self.busy + next.busy,
            error: self.error.or(next.error),
        }
    }
}

/// Number of helpers in the whole process, with the process id in the upper bits. Threads that
/// call at the same time share the processors; the child of a fork has none of its parent's
/// helpers.
static AT_WORK: AtomicU64 = AtomicU64::new(0);

/// Calls `step` for all slices of `regions`. The first error ends the operation early; slices
/// in progress are completed.
///
/// `step` is called by threads that share only memory, and must obey the rules of [`run_bare`].
pub fn share(
    regions: &mut [JobRegion],
    settings: &Settings,
    step: impl Fn(Region) -> Result<(), Errno> + Sync,
) -> Outcome {
    run(regions, settings, step, false)
}

/// As [`share`], for work of unknown size: the caller begins alone, and helpers start as soon
/// as a slice takes long.
///
/// Slices are larger if there would be very many of them. Terabytes that were only reserved
/// contain no work, and the kernel finds that out faster in one call than in millions.
pub fn share_if_long(
    regions: &mut [JobRegion],
    settings: &Settings,
    step: impl Fn(Region) -> Result<(), Errno> + Sync,
) -> Outcome {
    let bytes = regions.iter().fold(0_usize, |bytes, region| {
        bytes.saturating_add(region.region().length())
    });
    let least = (bytes / MAX_SLICES).max(1).next_power_of_two();
    let settings = Settings {
        slice: settings.slice.max(least),
        ..*settings
    };
    run(regions, &settings, step, true)
}

fn run(
    regions: &mut [JobRegion],
    settings: &Settings,
    step: impl Fn(Region) -> Result<(), Errno> + Sync,
    begin_alone: bool,
) -> Outcome {
    let slices = Slices::of(regions, settings.slice.next_power_of_two());
    let began = now();
    if slices.bytes() < settings.straight_below {
        return straight(&slices, began, step);
    }
    let mut outcome = Outcome {
        wanted: slices.bytes(),
        helpers: 1,
        ..Outcome::default()
    };
    let processors =
        (settings.helpers > 1).then(|| Processors::for_memory(slices.regions(), settings.spread));
    let reserved = processors.as_ref().map(|processors| {
        let most = settings
            .helpers
            .min(MAX_BARE_THREADS)
            .min(processors.count());
        let most = most.min(usize::try_from(slices.count()).unwrap_or(most));
        Reserved::others(most.saturating_sub(1), processors.count())
    });

    let others = reserved.as_ref().map_or(0, |reserved| reserved.0);
    let mut job = Job::new(&slices, step, 1 + others);
    if let Some(blocked) = settings.held_back {
        job.blocked = blocked;
    }
    let is_done = begin_alone && job.work_while_quick();
    outcome.helpers = match &processors {
        Some(processors) if others > 0 && !is_done => run_bare(
            1 + others,
            |number, thread| processors.place(number, thread),
            &|number| job.work(number),
        ),
        _ => {
            job.work(0);
            1
        }
    };
    outcome.helpers = outcome.helpers.min(job.pace.most_at_work());
    outcome.bytes = job.bytes.load(Ordering::Relaxed) as usize;
    outcome.error = match job.error.load(Ordering::Relaxed) {
        0 => None,
        code => Some(Errno::from_raw_os_error(code)),
    };
    outcome.busy = Duration::from_nanos(job.busy.load(Ordering::Relaxed));
    outcome.elapsed = now().saturating_sub(began);
    outcome
}

/// Handles small requests: one call per region.
fn straight(
    slices: &Slices<'_>,
    began: Duration,
    step: impl Fn(Region) -> Result<(), Errno>,
) -> Outcome {
    let mut outcome = Outcome {
        wanted: slices.bytes(),
        helpers: 1,
        ..Outcome::default()
    };
    for region in slices.regions().filter(|region| !region.is_empty()) {
        if let Err(errno) = step(region) {
            outcome.error = Some(errno);
            break;
        }
        outcome.bytes += region.length();
    }
    outcome.elapsed = now().saturating_sub(began);
    outcome.busy = outcome.elapsed;
    outcome
}

struct Job<'a, S> {
    slices: &'a Slices<'a>,
    step: S,
    cursor: WorkCursor,
    pace: Pace,
    bytes: AtomicU64,
    /// Total working time in nanoseconds.
    busy: AtomicU64,
    /// The first errno; 0 for none.
    error: AtomicI32,
    /// Signals that the caller blocked before the operation.
    blocked: u64,
}

impl<'a, S: Fn(Region) -> Result<(), Errno>> Job<'a, S> {
    fn new(slices: &'a Slices<'a>, step: S, helpers: usize) -> Self {
        Self {
            slices,
            step,
            cursor: WorkCursor::new(slices.count()),
            pace: Pace::new(helpers),
            bytes: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            error: AtomicI32::new(0),
            blocked: held_signals(),
        }
    }

    /// Work of each helper; number 0 is the caller, which also sets the pace.
    fn work(&self, number: usize) {
        while self.pace.may_work(number) && self.take_slice(number).is_some() {
            if number == 0 {
                self.pace.look(self.bytes.load(Ordering::Relaxed), now());
            }
        }
        // A helper that finds no work left releases those that still wait for their turn.
        self.pace.end();
    }

    /// Works alone; returns true if that completed the work. Stops after two slow slices in a
    /// row: a single one may only have been interrupted.
    fn work_while_quick(&self) -> bool {
        let mut slow = 0;
        while slow < 2 {
            let Some((length, took)) = self.take_slice(0) else {
                return true;
            };
            let is_slow = took > QUICK_MIB.mul_f64(length as f64 / MIB);
            slow = if is_slow { slow + 1 } else { 0 };
        }
        false
    }

    /// Processes one slice; returns its bytes and its duration. `None` if no work is left, or
    /// if the operation was ended.
    fn take_slice(&self, number: usize) -> Option<(usize, Duration)> {
        if self.error.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let region = self.slices.get(self.cursor.next()?);
        let began = now();
        if let Err(errno) = (self.step)(region) {
            let code = errno.raw_os_error();
            let _ = self
                .error
                .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        }
        let took = now().saturating_sub(began);
        self.busy
            .fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        self.bytes
            .fetch_add(region.length() as u64, Ordering::Relaxed);
        if number == 0 && processors::must_end(self.blocked) {
            let code = Errno::INTR.raw_os_error();
            self.error.store(code, Ordering::Relaxed);
            return None;
        }
        Some((region.length(), took))
    }
}

/// A number of helpers, without the caller, counted in [`AT_WORK`] until the drop.
struct Reserved(usize);

impl Reserved {
    /// Reserves up to `wanted` helpers, but no more than there are processors without a helper.
    fn others(wanted: usize, processors: usize) -> Self {
        let mut granted = 0;
        change_at_work(|at_work| {
            granted = wanted.min(processors.saturating_sub(at_work + 1));
            at_work + granted
        });
        Self(granted)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        change_at_work(|at_work| at_work.saturating_sub(self.0));
    }
}

fn change_at_work(mut change: impl FnMut(usize) -> usize) {
    let process = u64::from(getpid().as_raw_nonzero().get().unsigned_abs()) << 32;
    let _ = AT_WORK.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
        let at_work = if seen >> 32 == process >> 32 {
            seen as u32
        } else {
            0
        };
        Some(process | change(at_work as usize) as u64)
    });
}

/// Returns the monotonic clock, read without the C library.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests;
