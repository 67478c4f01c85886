//! Measures the model's parameters on this machine.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use anyhow::Context;
use bigiron_dump::page::{hash_of, is_zero};
use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::codec::Compression;
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES};
use serde::Serialize;

use super::costs::{BATCH_FRAMES, CodecCosts, Costs, Kept, PAGE_BYTES};
use super::model::Cost;
use super::stages::{Bench, CpuTime, READ_PAGES, StageTimes, UnitRuns};
use crate::results::median;

/// Maximum number of batches whose pages are examined; beyond it, every second one is dropped.
const MAX_UNITS: usize = 8192;
/// Number of pages that a round takes through all stages, 192 MiB.
const SAMPLE_PAGES: usize = 48 << 10;
/// Number of stored pages that the engine remembers (2 MiB of 40 bytes each).
const REMEMBERED: usize = 50_000;
/// Number of sections that two threads filter concurrently.
const FILTER_CHUNKS: usize = 64;
/// Number of pieces that each of two threads writes concurrently.
const WRITES: usize = 4;
/// Number of repetitions. The fastest counts, because other load can only delay the writes.
const TRIES: usize = 30;
/// Minimum fsync() time that indicates a disk, as a fraction of the write time.
const DISK_SHARE: f64 = 0.2;
const NANOSECONDS: f64 = 1e9;

/// The pages of a source at a dump level, prepared for measurement.
pub struct Sample<'a, 's> {
    kernel: &'a Kernel<'s>,
    /// Shares of the page classes.
    pub kept: Kept,
    filter: Cost,
    units: Vec<UnitRuns>,
    equal: HashSet<u64>,
}

/// Costs of one codec, measured in one round.
#[derive(Clone, Debug)]
pub struct Round {
    alone: StageTimes,
    beside: StageTimes,
    hand_over: f64,
    start: f64,
    disk_rate: f64,
}

/// All rounds of one codec.
#[derive(Clone, Debug)]
pub struct CodecRounds {
    /// The codec.
    pub compression: Compression,
    /// Results of the rounds.
    pub rounds: Vec<Round>,
}

/// The complete calibration, for the record.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// Shares of the page classes.
    pub kept: Kept,
    /// Costs: medians of all rounds.
    pub costs: Costs,
}

impl<'a, 's> Sample<'a, 's> {
    /// Filters `kernel` for `level` and counts zero and equal pages.
    pub fn take(kernel: &'a Kernel<'s>, level: DumpLevel) -> anyhow::Result<Self> {
        let mut filter = Filter::new(kernel, level)?;
        filter.end_at_mem_map()?;
        let source = kernel.source();
        let chunks: Vec<PageFrame> = source.sections().collect();
        anyhow::ensure!(!chunks.is_empty(), "the source has no memory");
        let mut sample = Self {
            kernel,
            kept: Kept {
                frames: chunks.len() as u64 * SECTION_FRAMES,
                pages: 0,
                zero: 0.0,
                equal: 0.0,
            },
            filter: Cost::default(),
            units: Vec::new(),
            equal: HashSet::new(),
        };
        let timed = &chunks[..chunks.len().min(FILTER_CHUNKS)];
        filter_all(kernel, &filter, timed)?;
        sample.filter.alone = filter_all(kernel, &filter, timed)?;
        sample.filter.beside = thread::scope(|scope| {
            let other = scope.spawn(|| filter_all(kernel, &filter, timed));
            let mine = filter_all(kernel, &filter, timed);
            let other = other
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            anyhow::Ok((mine? + other?) / 2.0)
        })?;
        sample.find_runs(&filter, &chunks)?;
        sample.count_classes()?;
        Ok(sample)
    }

    /// Collects the runs of kept pages of batches throughout memory.
    fn find_runs(&mut self, filter: &Filter, chunks: &[PageFrame]) -> anyhow::Result<()> {
        let mut reader = self.kernel.source().reader(IoMethod::Read);
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut kept = Bitmap::new(SECTION_FRAMES as usize);
        let (mut stride, mut number) = (1, 0_usize);
        for first in chunks {
            filter.scan_section(reader.as_mut(), *first, &mut ram, &mut kept)?;
            self.kept.pages += kept.count();
            for start in (0..kept.len()).step_by(BATCH_FRAMES as usize) {
                let end = start + BATCH_FRAMES as usize;
                let (mut from, mut runs) = (start, UnitRuns::new());
                while let Some((at, len)) = kept.next_run(from, end, BATCH_FRAMES as usize) {
                    runs.push((first.0 + at as u64, len));
                    from = at + len;
                }
                if runs.is_empty() {
                    continue;
                }
                number += 1;
                if number.is_multiple_of(stride) {
                    self.units.push(runs);
                }
                if self.units.len() > MAX_UNITS {
                    let mut keep = false;
                    self.units.retain(|_| {
                        keep = !keep;
                        keep
                    });
                    stride *= 2;
                }
            }
        }
        anyhow::ensure!(!self.units.is_empty(), "the dump level keeps no page");
        Ok(())
    }

    fn count_classes(&mut self) -> anyhow::Result<()> {
        let source = self.kernel.source();
        let page_size = 1_usize << source.page_shift();
        let mut reader = source.reader(IoMethod::Read);
        let (mut pages, mut zero) = (0_u64, 0_u64);
        let mut known = HashMap::new();
        let mut order = VecDeque::new();
        for (first, len) in self.units.iter().flatten() {
            let mut done = 0;
            while done < *len {
                let frame = first + done as u64;
                let read = match reader.pages(PageFrame(frame), READ_PAGES.min(len - done)) {
                    Ok(read) => read,
                    Err(error) if error.is_one_page() => {
                        done += 1;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                };
                for (index, page) in read.chunks_exact(page_size).enumerate() {
                    pages += 1;
                    if is_zero(page) {
                        zero += 1;
                        continue;
                    }
                    let hash = hash_of(page);
                    if known.insert(hash, ()).is_some() {
                        self.equal.insert(frame + index as u64);
                        continue;
                    }
                    order.push_back(hash);
                    if order.len() > REMEMBERED
                        && let Some(oldest) = order.pop_front()
                    {
                        known.remove(&oldest);
                    }
                }
                done += read.len() / page_size;
            }
        }
        self.kept.zero = zero as f64 / pages.max(1) as f64;
        self.kept.equal = self.equal.len() as f64 / pages.max(1) as f64;
        Ok(())
    }

    /// Returns the batches of a round: every `stride`-th, so that the rounds differ and
    /// together cover the dump; of these optionally one half.
    fn units(&self, round: usize, half: Option<usize>) -> impl Iterator<Item = &UnitRuns> {
        let pages: usize = self.units.iter().flatten().map(|run| run.1).sum();
        let stride = pages.div_ceil(SAMPLE_PAGES).max(1);
        self.units
            .iter()
            .skip(round % stride)
            .step_by(stride)
            .enumerate()
            .filter(move |(index, _)| half.is_none_or(|half| index % 2 == half))
            .map(|(_, unit)| unit)
    }

    /// Measures all stages for `compression` once: in one thread, and in two concurrently, each
    /// with a separate file in `directory`.
    pub fn round(
        &self,
        compression: Compression,
        round: usize,
        directory: &Path,
    ) -> anyhow::Result<Round> {
        let file = || {
            tempfile::tempfile_in(directory)
                .with_context(|| format!("{}: cannot create a file in it", directory.display()))
        };
        let begin = CpuTime::now();
        let bench = Bench {
            source: self.kernel.source(),
            compression,
            equal: &self.equal,
        };
        // A run without work measures the startup cost: readers, context and buffers.
        bench.run(std::iter::empty(), &file()?)?;
        let start = begin.elapsed().as_nanos() as f64;
        let scratch = file()?;
        let begin = Instant::now();
        let alone = bench.run(self.units(round, None), &scratch)?;
        let disk_rate = disk_rate(&scratch, &alone, begin)?;
        drop(scratch);
        let barrier = Barrier::new(2);
        let half = |half| {
            let scratch = file();
            barrier.wait();
            bench.run(self.units(round, Some(half)), &scratch?)
        };
        let beside = thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            let mine = half(0);
            let other = other
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            let mut both = mine?;
            both.merge(&other?);
            anyhow::Ok(both)
        })?;
        let units = self.units(round, None).count().max(1) as f64;
        let hand_over = hand_over(&file()?, (alone.write.count / units) as usize)?;
        Ok(Round {
            alone,
            beside,
            hand_over,
            start,
            disk_rate,
        })
    }

    /// Computes the costs from the rounds of several codecs.
    pub fn calibration(&self, codecs: &[CodecRounds], origin: String) -> Calibration {
        let all = || codecs.iter().flat_map(|codec| &codec.rounds);
        let over = |pick: &dyn Fn(&StageTimes) -> f64| median_cost(all(), pick);
        let rates: Vec<f64> = all().map(|round| round.disk_rate).collect();
        let hand_overs: Vec<f64> = all().map(|round| round.hand_over).collect();
        let starts: Vec<f64> = all().map(|round| round.start).collect();
        let costs = Costs {
            origin,
            filter: self.filter,
            read: over(&|times| times.read.each()),
            zero: over(&|times| times.zero.each()),
            hash: over(&|times| times.hash.each()),
            equal: over(&|times| times.equal.each()),
            hand_over: median(&hand_overs),
            start: median(&starts),
            disk_rate: median(&rates),
            codecs: codecs.iter().map(codec_costs).collect(),
        };
        Calibration {
            kept: self.kept,
            costs,
        }
    }
}

fn codec_costs(codec: &CodecRounds) -> CodecCosts {
    let over = |pick: &dyn Fn(&StageTimes) -> f64| median_cost(codec.rounds.iter(), pick);
    let mut sum = StageTimes::default();
    for round in &codec.rounds {
        sum.merge(&round.alone);
    }
    let stored = sum.compressible.count + sum.incompressible.count;
    CodecCosts {
        name: codec.compression.to_string(),
        compressible: over(&|times| times.compressible.each()),
        incompressible: over(&|times| times.incompressible.each()),
        incompressible_share: sum.incompressible.count / stored.max(1.0),
        compressed_bytes: if sum.compressible.count > 0.0 {
            sum.compressed_bytes / sum.compressible.count
        } else {
            PAGE_BYTES
        },
        write: over(&|times| times.write.each()),
    }
}

fn median_cost<'r>(
    rounds: impl Iterator<Item = &'r Round>,
    pick: &dyn Fn(&StageTimes) -> f64,
) -> Cost {
    let (alone, beside): (Vec<f64>, Vec<f64>) = rounds
        .map(|round| (pick(&round.alone), pick(&round.beside)))
        .unzip();
    Cost {
        alone: median(&alone),
        beside: median(&beside),
    }
}

/// Filters sections; returns the nanoseconds per section.
fn filter_all(kernel: &Kernel, filter: &Filter, chunks: &[PageFrame]) -> anyhow::Result<f64> {
    let mut reader = kernel.source().reader(IoMethod::Read);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    let begin = CpuTime::now();
    for first in chunks {
        filter.scan_section(reader.as_mut(), *first, &mut ram, &mut kept)?;
    }
    Ok(begin.elapsed().as_nanos() as f64 / chunks.len().max(1) as f64)
}

/// Returns the write rate of the disk behind `file`, measured over writing and syncing a
/// sample; infinite if fsync() takes almost no time.
fn disk_rate(file: &File, times: &StageTimes, begin: Instant) -> anyhow::Result<f64> {
    let sync = Instant::now();
    file.sync_all()?;
    let waited = sync.elapsed().as_secs_f64();
    let writing = times.write.nanoseconds / NANOSECONDS;
    Ok(if waited < DISK_SHARE * writing {
        f64::INFINITY
    } else {
        times.write.count / begin.elapsed().as_secs_f64()
    })
}

/// Returns the additional time of a write that waits for another one, in nanoseconds.
fn hand_over(file: &File, piece: usize) -> anyhow::Result<f64> {
    let (mut one, mut two) = (f64::INFINITY, f64::INFINITY);
    // The first writes allocate the pages of the file; the others reuse them.
    writers(file, piece, true)?;
    for _ in 0..TRIES {
        one = one.min(writers(file, piece, false)?);
        two = two.min(writers(file, piece, true)?);
    }
    Ok((two - one).max(0.0))
}

/// Writes pieces of a file with one thread, or with two concurrently; returns the nanoseconds
/// per piece.
fn writers(file: &File, piece: usize, two: bool) -> anyhow::Result<f64> {
    let data = vec![0x5a; piece.max(1)];
    let write = |from: usize| {
        (from..from + WRITES).try_for_each(|number| {
            let offset = (number * data.len()) as u64;
            file.write_all_at(&data, offset)
        })
    };
    let begin = Instant::now();
    let pieces = if two {
        thread::scope(|scope| {
            let other = scope.spawn(|| write(WRITES));
            let mine = write(0);
            let other = other
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            mine?;
            other?;
            anyhow::Ok(2 * WRITES)
        })?
    } else {
        write(0)?;
        WRITES
    };
    Ok(begin.elapsed().as_nanos() as f64 / pieces as f64)
}
