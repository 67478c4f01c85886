//! One operation over memory, shared among helpers.

mod pace;
mod processors;

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use bigiron_helpers::{ChunkCursor, MOST_BARE, run_bare};
use rustix::io::Errno;
use rustix::process::getpid;
use rustix::time::{ClockId, clock_gettime};

use crate::region::{Chunks, Piece, Region};
use pace::Pace;
pub use processors::{Processors, prepare};

/// The most helpers of one operation, if nothing else is said: as many as help
/// well, few enough to leave the rest of a large machine to others.
pub const MOST_HELPERS: usize = 16;

/// A chunk, unless pages are larger: some hundred microseconds of work.
pub const CHUNK: usize = 4 << 20;

/// How an operation is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most helpers, the caller among them; 1 is the caller alone.
    pub helpers: usize,
    /// Bytes below which the caller works alone: starting helpers would take longer.
    pub straight_below: usize,
    /// Bytes that one helper takes at a time; a power of two.
    pub chunk: usize,
    /// Whether helpers work on all nodes of the memory, where no policy says which.
    pub spread: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            helpers: MOST_HELPERS,
            straight_below: 8 << 20,
            chunk: CHUNK,
            spread: false,
        }
    }
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of chunks that were done.
    pub bytes: usize,
    /// Bytes that were to be done.
    pub wanted: usize,
    /// How many helpers worked, the caller among them.
    pub helpers: usize,
    /// From its beginning to its end.
    pub elapsed: Duration,
    /// What the helpers worked, added up.
    pub busy: Duration,
    /// Why it did not come to its end: the first error of a chunk.
    pub error: Option<Errno>,
}

impl Outcome {
    /// Time that one helper would have taken beyond this, at the same speed.
    pub fn saved(&self) -> Duration {
        self.busy.saturating_sub(self.elapsed)
    }

    /// An error if there was one.
    pub fn result(self) -> Result<Self, Errno> {
        self.error.map_or(Ok(self), Err)
    }

    /// Both, one after the other.
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

/// Helpers that work anywhere in this process now, and above them the process's
/// number: many threads that call at once share the processors, and the child of a fork
/// has none of its parent's helpers.
static AT_WORK: AtomicU64 = AtomicU64::new(0);

/// Does `step` for all chunks of `pieces`. The first error ends it early; chunks
/// that others have in hand are still done.
///
/// `step` is called by threads that share nothing but memory, and must keep to
/// what [`run_bare`] asks.
pub fn share(
    pieces: &mut [Piece],
    settings: &Settings,
    step: impl Fn(Region) -> Result<(), Errno> + Sync,
) -> Outcome {
    let chunks = Chunks::of(pieces, settings.chunk.next_power_of_two());
    let began = now();
    let mut outcome = Outcome {
        wanted: chunks.bytes(),
        helpers: 1,
        ..Outcome::default()
    };
    let processors = (chunks.bytes() >= settings.straight_below && settings.helpers > 1)
        .then(|| Processors::for_memory(chunks.regions(), settings.spread));
    let reserved = processors.as_ref().map(|processors| {
        let most = settings.helpers.min(MOST_BARE).min(processors.count());
        let most = most.min(usize::try_from(chunks.count()).unwrap_or(most));
        Reserved::others(most.saturating_sub(1), processors.count())
    });

    let others = reserved.as_ref().map_or(0, |reserved| reserved.0);
    let job = Job::new(&chunks, step, 1 + others);
    outcome.helpers = match &processors {
        Some(processors) if others > 0 => run_bare(
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

struct Job<'a, S> {
    chunks: &'a Chunks<'a>,
    step: S,
    cursor: ChunkCursor,
    pace: Pace,
    bytes: AtomicU64,
    /// Nanoseconds.
    busy: AtomicU64,
    /// The first errno; 0 for none.
    error: AtomicI32,
}

impl<'a, S: Fn(Region) -> Result<(), Errno>> Job<'a, S> {
    fn new(chunks: &'a Chunks<'a>, step: S, helpers: usize) -> Self {
        Self {
            chunks,
            step,
            cursor: ChunkCursor::new(chunks.count()),
            pace: Pace::new(helpers),
            bytes: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            error: AtomicI32::new(0),
        }
    }

    /// What each helper does; number 0 is the caller, who also sets the pace.
    fn work(&self, number: usize) {
        while self.pace.may_work(number) {
            let Some(chunk) = self.cursor.next() else {
                break;
            };
            let region = self.chunks.get(chunk);
            let began = now();
            if let Err(errno) = (self.step)(region) {
                let code = errno.raw_os_error();
                let _ = self
                    .error
                    .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
                break;
            }
            let took = now().saturating_sub(began);
            self.busy
                .fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
            let done = self
                .bytes
                .fetch_add(region.length() as u64, Ordering::Relaxed);
            if self.error.load(Ordering::Relaxed) != 0 {
                break;
            }
            if number == 0 {
                if processors::must_end() {
                    let code = Errno::INTR.raw_os_error();
                    self.error.store(code, Ordering::Relaxed);
                    break;
                }
                self.pace.look(done + region.length() as u64, now());
            }
        }
        // Whoever finds nothing left sends home those who still wait for their turn.
        self.pace.end();
    }
}

/// Helpers that were counted in, beside the caller.
struct Reserved(usize);

impl Reserved {
    /// As many of `wanted` as there are processors without one.
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

/// The monotonic clock, read without the C library.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(helpers: usize) -> Settings {
        Settings {
            helpers,
            straight_below: 0,
            chunk: 4096,
            ..Settings::default()
        }
    }

    #[test]
    fn every_chunk_is_done_once_and_counted() {
        let mut pieces = [
            Region::between(0, 1 << 20),
            Region::between(3 << 20, 4 << 20),
        ]
        .map(Piece::from);
        let sum = AtomicU64::new(0);
        let outcome = share(&mut pieces, &settings(4), |region| {
            sum.fetch_add(region.start() as u64, Ordering::Relaxed);
            Ok(())
        });
        assert_eq!((outcome.bytes, outcome.wanted), (2 << 20, 2 << 20));
        assert_eq!(outcome.error, None);
        let starts = (0..256)
            .chain(768..1024)
            .map(|page| page * 4096)
            .sum::<u64>();
        assert_eq!(sum.into_inner(), starts);
    }

    #[test]
    fn the_first_error_ends_it() {
        let mut pieces = [Region::between(0, 1 << 30)].map(Piece::from);
        let outcome = share(&mut pieces, &settings(4), |region| {
            if region.start() < 1 << 20 {
                Ok(())
            } else {
                Err(Errno::NOMEM)
            }
        });
        assert_eq!(outcome.result(), Err(Errno::NOMEM));
        assert!(outcome.bytes <= 1 << 20);
    }

    #[test]
    fn small_requests_start_nobody() {
        let mut pieces = [Region::between(0, 1 << 20)].map(Piece::from);
        let big_enough = Settings {
            straight_below: (1 << 20) + 1,
            ..settings(4)
        };
        assert_eq!(share(&mut pieces, &big_enough, |_| Ok(())).helpers, 1);
    }

    #[test]
    fn helpers_are_counted_out_again() {
        let count = || AT_WORK.load(Ordering::Relaxed) as u32;
        // Of other tests some may be at work.
        for _ in 0..100 {
            drop(Reserved::others(4, 64));
        }
        assert!(count() < 64);
    }
}
