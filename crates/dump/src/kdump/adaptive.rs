//! Chooses how strongly to compress, so that neither processors nor disk wait.
//!
//! A dump takes the least time when processors and disk are busy all the time.
//! There are two neighbouring steps of strength for that: at the weaker one the
//! disk is the slow part, at the stronger one the processors are. Which two is
//! known from what pages cost and how large they get, measured while dumping;
//! what is not measured yet is taken from what pages usually cost. It also says
//! which mix of the two keeps both busy. The writer's queue corrects it: more
//! of the stronger one as long as it is well filled, none when it is empty.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bigiron_format::codec::{Codec, Compression};

use super::thread_time::Spent;

/// One way to compress among [`STEPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step(pub(super) usize);

impl Step {
    /// Where a dump begins, before anything is known: cheap, and half the size.
    pub(super) const FIRST: Self = Self(1);
}

/// What a step means.
pub(super) struct StepMeaning {
    pub(super) compression: Compression,
    /// What a page of 4 KiB usually costs, in nanoseconds, and how large it
    /// gets, in bytes: only their proportions count.
    usual: Page,
}

#[derive(Clone, Copy)]
struct Page {
    cost: f64,
    size: f64,
}

const fn step(codec: Codec, level: i32, cost: f64, size: f64) -> StepMeaning {
    StepMeaning {
        compression: Compression { codec, level },
        usual: Page { cost, size },
    }
}

/// From fast to strong. Each brings a ratio that no mix of its neighbours
/// has at the same cost, measured on pages of 4 KiB (`codec_speed`): zstd's
/// negative levels do not (LZO is faster at the same ratio), and beyond level
/// 9 a page costs ten times as much for two per cent.
pub(super) const STEPS: [StepMeaning; 5] = [
    step(Codec::None, 0, 1_000.0, 4096.0),
    step(Codec::Lzo, 0, 7_000.0, 1900.0),
    step(Codec::Zstd, 1, 19_000.0, 1350.0),
    step(Codec::Zstd, 5, 60_000.0, 1310.0),
    step(Codec::Zstd, 9, 110_000.0, 1285.0),
];

/// What was measured longer ago than about so many units is forgotten.
const REMEMBERED_UNITS: f64 = 16.0;

/// A mean in which old values count less and less.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, sum: f64, weight: f64) {
        let keep = 1.0 - 1.0 / REMEMBERED_UNITS;
        self.sum = self.sum * keep + sum;
        self.weight = self.weight * keep + weight;
    }

    fn get(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// What was measured.
#[derive(Default)]
struct Measured {
    /// Nanoseconds of one helper for a page, by step.
    cost: [Mean; STEPS.len()],
    /// Bytes that a page takes, by step.
    size: [Mean; STEPS.len()],
    /// Nanoseconds that the writer takes for a byte, and those of them in
    /// which it needs a processor.
    write: Mean,
    write_processor: Mean,
    /// Parts of a stronger unit that are due.
    due: f64,
    /// Units that took each step.
    taken: [u64; STEPS.len()],
}

impl Measured {
    /// What a page costs at `step`: as measured, or as it usually does beside
    /// the nearest step that was measured.
    fn page(&self, step: usize) -> Page {
        let of = |means: &[Mean; STEPS.len()], usual: fn(&Page) -> f64| {
            let nearest = (0..STEPS.len())
                .filter_map(|other| Some((other, means[other].get()?)))
                .min_by_key(|(other, _)| other.abs_diff(step));
            let expected = usual(&STEPS[step].usual);
            nearest.map_or(expected, |(other, measured)| {
                expected * measured / usual(&STEPS[other].usual)
            })
        };
        Page {
            cost: of(&self.cost, |page| page.cost),
            size: of(&self.size, |page| page.size),
        }
    }

    /// Nanoseconds for a page at `step`: of the disk, and of the helpers or
    /// of all processors, whatever is more. The writer needs a processor too.
    fn times(&self, step: usize, threads: Threads) -> Option<(f64, f64)> {
        let page = self.page(step);
        let writing = page.size * self.write_processor.get()?;
        let helpers = page.cost / threads.helpers;
        let processors = (page.cost + writing) / threads.processors;
        Some((page.size * self.write.get()?, helpers.max(processors)))
    }

    /// The strongest step at which the disk still is the slow part, and how
    /// much of the next one makes them equal; `None` before there is a measure.
    fn balance(&self, threads: Threads) -> Option<(usize, f64)> {
        let mut balance = (0, 0.0);
        for step in 0..STEPS.len() {
            let (disk, processors) = self.times(step, threads)?;
            if disk <= processors {
                break;
            }
            let share = match STEPS.get(step + 1) {
                Some(_) => {
                    let (next_disk, next_processors) = self.times(step + 1, threads)?;
                    let (slack, lack) = (disk - processors, next_processors - next_disk);
                    slack / (slack + lack.max(0.0))
                }
                None => 0.0,
            };
            balance = (step, share);
        }
        Some(balance)
    }
}

/// What shares the work.
#[derive(Clone, Copy)]
struct Threads {
    helpers: f64,
    processors: f64,
}

/// Chooses the step of each unit.
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

    /// The step for a helper's next unit, when `queued` of at most `capacity`
    /// units wait to be written.
    pub(super) fn next(&self, queued: usize, capacity: usize) -> Step {
        let mut measured = self.lock();
        let step = match measured.balance(self.threads) {
            None => Step::FIRST.0,
            Some((step, share)) => {
                // Half full is as it should be.
                let fill = 2.0 * queued as f64 / capacity.max(1) as f64;
                measured.due = (measured.due + share * fill).min(2.0);
                if measured.due >= 1.0 {
                    measured.due -= 1.0;
                    (step + 1).min(STEPS.len() - 1)
                } else {
                    step
                }
            }
        };
        measured.taken[step] += 1;
        Step(step)
    }

    /// A helper took so much for `pages` pages, which became `bytes`.
    pub(super) fn compressed(&self, step: Step, pages: u64, bytes: u64, spent: Spent) {
        if pages > 0 {
            let mut measured = self.lock();
            measured.cost[step.0].add(nanoseconds(spent.busy), pages as f64);
            measured.size[step.0].add(bytes as f64, pages as f64);
        }
    }

    /// The writer took so much for `bytes`.
    pub(super) fn written(&self, bytes: u64, spent: Spent) {
        if bytes > 0 {
            let mut measured = self.lock();
            let (busy, processor) = (nanoseconds(spent.busy), nanoseconds(spent.processor));
            measured.write.add(busy, bytes as f64);
            measured.write_processor.add(processor, bytes as f64);
        }
    }

    /// How many units took each step.
    pub(super) fn taken(&self) -> Vec<(Compression, u64)> {
        let taken = self.lock().taken;
        let steps = STEPS.iter().map(|step| step.compression);
        steps.zip(taken).collect()
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

    /// Dumps at a disk of so many bytes a second with so many helpers, each
    /// `slowness` times as slow as usual, where a written byte takes so many
    /// nanoseconds of a processor; gives the mean step at the end.
    fn settle(bytes_per_second: f64, helpers: usize, slowness: f64, write: f64) -> f64 {
        let controller = Controller::new(helpers, helpers);
        let (mut queue, mut steps) = (0.0_f64, Vec::new());
        for _ in 0..400 {
            let step = controller.next(queue.round() as usize, CAPACITY as usize);
            let page = STEPS[step.0].usual;
            let compressing = page.cost * PAGES as f64 * slowness;
            let bytes = page.size * PAGES as f64;
            let writing = (bytes / bytes_per_second * 1e9).max(bytes * write);
            let helper = spent(compressing, compressing);
            controller.compressed(step, PAGES, bytes as u64, helper);
            controller.written(bytes as u64, spent(writing, bytes * write));
            // A unit came, and meanwhile the disk took some away.
            let processors = (compressing + bytes * write) / helpers as f64;
            queue = (queue + 1.0 - processors / writing).clamp(0.0, CAPACITY);
            steps.push(step.0 as f64);
        }
        steps[200..].iter().sum::<f64>() / 200.0
    }

    #[test]
    fn it_settles_where_processors_and_disk_are_busy() {
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
    fn a_writer_that_needs_the_processors_gets_them() {
        // The writer is the slow part, by a little, since it copies: stronger
        // compression would take the time it needs from it.
        let share = settle(20e9, 2, 1.0, 0.5);
        assert!(share < 0.3, "{share}");
    }

    #[test]
    fn it_begins_in_the_middle_and_counts_what_it_chose() {
        let controller = Controller::new(4, 4);
        assert_eq!(controller.next(0, 8), Step::FIRST);
        assert_eq!(controller.taken()[Step::FIRST.0].1, 1);
        // Times of zero and units without pages say nothing.
        controller.compressed(Step(0), 0, 0, Spent::default());
        controller.written(0, Spent::default());
        assert_eq!(controller.next(8, 8), Step::FIRST);
    }
}
