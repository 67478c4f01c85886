//! Chooses the strength of compression, so that neither processors nor disk wait.
//!
//! A dump takes the least time if processors and disk are busy all the time. Two neighbouring
//! strengths achieve this: at the weaker one the disk is the bottleneck, at the stronger one
//! the processors are. The cost and the compressed size of pages, measured while dumping,
//! determine the two strengths and the mix that keeps both busy; typical values are used until
//! measurements exist. The writer's queue corrects the mix: more of the stronger one while the
//! queue is well filled, none when it is empty.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bigiron_format::codec::{Codec, Compression};

use super::thread_time::Spent;

/// Index of a strength in [`STRENGTHS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strength(pub(super) usize);

impl Strength {
    /// The strength before the first measurement: cheap, and half the size.
    pub(super) const FIRST: Self = Self(1);
}

/// Compression of a strength, and its typical cost.
pub(super) struct StrengthInfo {
    pub(super) compression: Compression,
    /// Typical cost of a page of 4 KiB in nanoseconds, and its typical compressed size in bytes;
    /// only the proportions matter.
    typical: PageCost,
}

/// Time and compressed size of a page.
#[derive(Clone, Copy)]
struct PageCost {
    cost: f64,
    size: f64,
}

const fn strength(codec: Codec, level: i32, cost: f64, size: f64) -> StrengthInfo {
    StrengthInfo {
        compression: Compression { codec, level },
        typical: PageCost { cost, size },
    }
}

/// Strengths from fast to strong. Each has a ratio that no mix of its neighbours reaches at the
/// same cost, measured on pages of 4 KiB (`codec_speed`): zstd's negative levels do not (LZO is
/// faster at the same ratio), and beyond level 9 a page costs ten times as much for 2%.
pub(super) const STRENGTHS: [StrengthInfo; 5] = [
    strength(Codec::None, 0, 1_000.0, 4096.0),
    strength(Codec::Lzo, 0, 7_000.0, 1900.0),
    strength(Codec::Zstd, 1, 19_000.0, 1350.0),
    strength(Codec::Zstd, 5, 60_000.0, 1310.0),
    strength(Codec::Zstd, 9, 110_000.0, 1285.0),
];

/// Number of batches after which a measurement has mostly faded.
const REMEMBERED_BATCHES: f64 = 16.0;

/// Exponentially weighted moving average.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, sum: f64, weight: f64) {
        let keep = 1.0 - 1.0 / REMEMBERED_BATCHES;
        self.sum = self.sum * keep + sum;
        self.weight = self.weight * keep + weight;
    }

    fn get(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// Measurements.
#[derive(Default)]
struct Measured {
    /// Nanoseconds of one helper for a page, by strength.
    cost: [Mean; STRENGTHS.len()],
    /// Compressed size of a page, by strength.
    size: [Mean; STRENGTHS.len()],
    /// Nanoseconds of the writer for a byte, and the part of them spent on a processor.
    write: Mean,
    write_processor: Mean,
    /// Fraction of a stronger batch that is due.
    due: f64,
    /// Batches by strength.
    taken: [u64; STRENGTHS.len()],
}

impl Measured {
    /// Returns the cost of a page at `strength`: as measured, or extrapolated from the nearest
    /// measured strength.
    fn page(&self, strength: usize) -> PageCost {
        let of = |means: &[Mean; STRENGTHS.len()], typical: fn(&PageCost) -> f64| {
            let nearest = (0..STRENGTHS.len())
                .filter_map(|other| Some((other, means[other].get()?)))
                .min_by_key(|(other, _)| other.abs_diff(strength));
            let expected = typical(&STRENGTHS[strength].typical);
            nearest.map_or(expected, |(other, measured)| {
                expected * measured / typical(&STRENGTHS[other].typical)
            })
        };
        PageCost {
            cost: of(&self.cost, |page| page.cost),
            size: of(&self.size, |page| page.size),
        }
    }

    /// Returns the nanoseconds for a page at `strength`: of the disk, and of the helpers or of
    /// all processors, whichever is more. The writer needs a processor too.
    fn times(&self, strength: usize, threads: Threads) -> Option<(f64, f64)> {
        let page = self.page(strength);
        let writing = page.size * self.write_processor.get()?;
        let helpers = page.cost / threads.helpers;
        let processors = (page.cost + writing) / threads.processors;
        Some((page.size * self.write.get()?, helpers.max(processors)))
    }

    /// Returns the strongest strength at which the disk is still the bottleneck, and the share of
    /// the next one that makes both equal; `None` before the first measurement.
    fn balance(&self, threads: Threads) -> Option<(usize, f64)> {
        let mut balance = (0, 0.0);
        for strength in 0..STRENGTHS.len() {
            let (disk, processors) = self.times(strength, threads)?;
            if disk <= processors {
                break;
            }
            let share = match STRENGTHS.get(strength + 1) {
                Some(_) => {
                    let (next_disk, next_processors) = self.times(strength + 1, threads)?;
                    let (slack, lack) = (disk - processors, next_processors - next_disk);
                    slack / (slack + lack.max(0.0))
                }
                None => 0.0,
            };
            balance = (strength, share);
        }
        Some(balance)
    }
}

/// Threads and processors that share the work.
#[derive(Clone, Copy)]
struct Threads {
    helpers: f64,
    processors: f64,
}

/// Chooses the strength of each batch.
pub(super) struct Controller {
    measured: Mutex<Measured>,
    threads: Threads,
}

impl Controller {
    pub(super) fn new(helpers: usize, processors: usize) -> Self {
        Self {
            measured: Mutex::default(),
            threads: Threads {
                helpers: helpers.max(1) as f64,
                processors: processors.max(1) as f64,
            },
        }
    }

    /// Returns the strength of a helper's next batch, while `queued` of at most `capacity` batches
    /// wait to be written.
    pub(super) fn next(&self, queued: usize, capacity: usize) -> Strength {
        let mut measured = self.lock();
        let strength = match measured.balance(self.threads) {
            None => Strength::FIRST.0,
            Some((strength, share)) => {
                // The target is a queue that is half full.
                let fill = 2.0 * queued as f64 / capacity.max(1) as f64;
                measured.due = (measured.due + share * fill).min(2.0);
                if measured.due >= 1.0 {
                    measured.due -= 1.0;
                    (strength + 1).min(STRENGTHS.len() - 1)
                } else {
                    strength
                }
            }
        };
        measured.taken[strength] += 1;
        Strength(strength)
    }

    /// Records the time in which a helper compressed `pages` pages to `bytes`.
    pub(super) fn compressed(&self, strength: Strength, pages: u64, bytes: u64, spent: Spent) {
        if pages > 0 {
            let mut measured = self.lock();
            measured.cost[strength.0].add(nanoseconds(spent.busy), pages as f64);
            measured.size[strength.0].add(bytes as f64, pages as f64);
        }
    }

    /// Records the time in which the writer wrote `bytes`.
    pub(super) fn written(&self, bytes: u64, spent: Spent) {
        if bytes > 0 {
            let mut measured = self.lock();
            let (busy, processor) = (nanoseconds(spent.busy), nanoseconds(spent.processor));
            measured.write.add(busy, bytes as f64);
            measured.write_processor.add(processor, bytes as f64);
        }
    }

    /// Returns the number of batches of each strength.
    pub(super) fn taken(&self) -> Vec<(Compression, u64)> {
        let taken = self.lock().taken;
        let strengths = STRENGTHS.iter().map(|strength| strength.compression);
        strengths.zip(taken).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.measured
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 256;
    const CAPACITY: f64 = 8.0;

    fn spent(busy: f64, processor: f64) -> Spent {
        Spent {
            busy: Duration::from_nanos(busy as u64),
            processor: Duration::from_nanos(processor as u64),
        }
    }

    /// Simulates a dump to a disk of `bytes_per_second` with this number of helpers, each
    /// `slowness` times as slow as usual. A written byte takes `write` nanoseconds of a
    /// processor. Returns the mean strength at the end.
    fn settle(bytes_per_second: f64, helpers: usize, slowness: f64, write: f64) -> f64 {
        let controller = Controller::new(helpers, helpers);
        let (mut queue, mut strengths) = (0.0_f64, Vec::new());
        for _ in 0..400 {
            let strength = controller.next(queue.round() as usize, CAPACITY as usize);
            let page = STRENGTHS[strength.0].typical;
            let compressing = page.cost * PAGES as f64 * slowness;
            let bytes = page.size * PAGES as f64;
            let writing = (bytes / bytes_per_second * 1e9).max(bytes * write);
            let helper = spent(compressing, compressing);
            controller.compressed(strength, PAGES, bytes as u64, helper);
            controller.written(bytes as u64, spent(writing, bytes * write));
            // One batch arrived, and meanwhile the disk took some away.
            let processors = (compressing + bytes * write) / helpers as f64;
            queue = (queue + 1.0 - processors / writing).clamp(0.0, CAPACITY);
            strengths.push(strength.0 as f64);
        }
        strengths[200..].iter().sum::<f64>() / 200.0
    }

    #[test]
    fn strength_settles_where_processors_and_disk_are_busy() {
        let fast = settle(20e9, 2, 1.0, 0.0);
        assert_eq!(fast, 0.0, "nothing is gained by compressing");
        let middle = settle(500e6, 2, 1.0, 0.0);
        assert!((0.5..1.5).contains(&middle), "mostly LZO: {middle}");
        let slow = settle(50e6, 2, 1.0, 0.0);
        assert!((2.0..3.0).contains(&slow), "zstd: {slow}");
        assert!(settle(5e6, 8, 1.0, 0.0) > 3.9, "as strong as it gets");
        assert!(settle(50e6, 2, 4.0, 0.0) < slow, "slow processors do less");
        assert!(settle(50e6, 16, 1.0, 0.0) > slow, "many processors do more");
    }

    #[test]
    fn writer_that_needs_the_processors_gets_them() {
        // The writer is slightly slower than the helpers, since it copies: stronger compression
        // would take processor time from it.
        let share = settle(20e9, 2, 1.0, 0.5);
        assert!(share < 0.3, "{share}");
    }

    #[test]
    fn first_strength_is_in_the_middle_and_choices_are_counted() {
        let controller = Controller::new(4, 4);
        assert_eq!(controller.next(0, 8), Strength::FIRST);
        assert_eq!(controller.taken()[Strength::FIRST.0].1, 1);
        // Times of zero and batches without pages are ignored.
        controller.compressed(Strength(0), 0, 0, Spent::default());
        controller.written(0, Spent::default());
        assert_eq!(controller.next(8, 8), Strength::FIRST);
    }
}
