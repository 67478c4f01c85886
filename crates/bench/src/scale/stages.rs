//! Measures each stage of the copy separately, over a sample of pages.
//!
//! The stages are reimplemented here, separate from the engine, so that the model is built from
//! the costs of the work and not from the runs that it predicts.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use bigiron_dump::page::{ByPageHash, hash_of, is_zero};
use bigiron_format::PageFrame;
use bigiron_format::codec::{Codec, Compression};
use bigiron_kernel::{IoMethod, MemorySource};
use rustix::time::ClockId;

use crate::clock::processor_time;

use super::costs::{BATCH_FRAMES, DESCRIPTOR_BYTES};

/// Pages read at once, as in the engine.
pub const READ_PAGES: usize = 64;
/// Number of pages in the stand-in for the table of stored pages, 2 MiB in total, and number of
/// sets of four slots that refer to them.
const TABLE_PAGES: usize = (2 << 20) / 56;
const TABLE_SETS: usize = TABLE_PAGES / 2;

/// Runs of kept pages in a batch: first page frame and count.
pub type UnitRuns = Vec<(u64, usize)>;

/// A sum of times, with the number of pages (or bytes) that it covers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timed {
    /// Total time in nanoseconds.
    pub nanoseconds: f64,
    /// Number of pages, or of bytes for writes.
    pub count: f64,
}

impl Timed {
    fn add(&mut self, time: Duration, count: f64) {
        self.nanoseconds += time.as_nanos() as f64;
        self.count += count;
    }

    fn merge(&mut self, other: &Self) {
        self.nanoseconds += other.nanoseconds;
        self.count += other.count;
    }

    /// Returns the nanoseconds per page; zero if there were none.
    pub fn each(&self) -> f64 {
        self.nanoseconds / self.count.max(1.0)
    }
}

/// The times of all stages.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageTimes {
    /// Reading pages.
    pub read: Timed,
    /// Detecting zeros, per zero page.
    pub zero: Timed,
    /// Hashing and lookup, per nonzero page.
    pub hash: Timed,
    /// Reading and comparing equal pages.
    pub equal: Timed,
    /// Compressing pages that shrink.
    pub compressible: Timed,
    /// Compressing pages that do not shrink.
    pub incompressible: Timed,
    /// Writing, per byte.
    pub write: Timed,
    /// Total compressed size of the pages that shrank, in bytes.
    pub compressed_bytes: f64,
}

impl StageTimes {
    /// Adds the times of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.zero.merge(&other.zero);
        self.hash.merge(&other.hash);
        self.equal.merge(&other.equal);
        self.compressible.merge(&other.compressible);
        self.incompressible.merge(&other.incompressible);
        self.write.merge(&other.write);
        self.compressed_bytes += other.compressed_bytes;
    }
}

/// A stand-in with the timing of the table of stored pages: slots that are read for every page,
/// and a ring that is written in order.
struct StandIn {
    sets: Vec<[u64; 4]>,
    ring: Vec<[u64; 5]>,
    next: usize,
}

impl StandIn {
    fn new() -> Self {
        Self {
            sets: vec![[0; 4]; TABLE_SETS],
            ring: vec![[0; 5]; TABLE_PAGES],
            next: 0,
        }
    }

    fn find_or_insert(&mut self, hash: u64) {
        let set = (u64::from(hash as u32) * TABLE_SETS as u64) >> 32;
        let set = &mut self.sets[set as usize];
        if set.iter().all(|slot| slot >> 32 != hash >> 32) {
            set[self.next % 4] = hash;
            self.ring[self.next] = [hash; 5];
            self.next = (self.next + 1) % TABLE_PAGES;
        }
    }
}

/// A test bench: source, codec, and the file to write to.
pub struct Bench<'a> {
    /// The source of pages.
    pub source: &'a dyn MemorySource,
    /// The codec.
    pub compression: Compression,
    /// Page frames that are equal to another page.
    pub equal: &'a HashSet<u64>,
}

impl Bench<'_> {
    /// Takes the batches of the sample through all stages.
    pub fn run<'u>(
        &self,
        units: impl Iterator<Item = &'u UnitRuns>,
        file: &File,
    ) -> anyhow::Result<StageTimes> {
        let page_size = 1_usize << self.source.page_shift();
        let mut reader = self.source.reader(IoMethod::Read);
        let mut comparer = self.source.reader(IoMethod::Read);
        let mut compressor = self.compression.compressor()?;
        let stores = self.compression.codec == Codec::None;
        let mut data = vec![0; BATCH_FRAMES as usize * page_size];
        let mut table = StandIn::new();
        let mut new_pages = ByPageHash::default();
        let mut whole = Vec::new();
        let (mut times, clock) = (StageTimes::default(), clock_cost());
        let zero_page = zero_cost(page_size);
        let descriptor_area = 1_u64 << 30;
        let (mut offset, mut index) = (descriptor_area, 0);
        for runs in units {
            let (mut used, mut pages_in_unit) = (0, 0);
            new_pages.clear();
            for (first, len) in pieces(runs) {
                let begin = CpuTime::now();
                let pages = match reader.pages(PageFrame(first), len) {
                    Ok(pages) => pages,
                    Err(error) if error.is_one_page() => continue,
                    Err(error) => return Err(error.into()),
                };
                times
                    .read
                    .add(begin.elapsed(), (pages.len() / page_size) as f64);
                pages_in_unit += pages.len() / page_size;

                // In one pass, as in the engine: a page is still in the cache when it is
                // hashed.
                let begin = CpuTime::now();
                whole.clear();
                for (number, page) in pages.chunks_exact(page_size).enumerate() {
                    if is_zero(page) {
                        continue;
                    }
                    whole.push(number);
                    let hash = hash_of(page);
                    if new_pages.insert(hash, number).is_none() {
                        table.find_or_insert(hash);
                    }
                }
                let both = begin.elapsed().saturating_sub(clock);
                let zeros = (pages.len() / page_size - whole.len()) as u32;
                let zero_time = zero_page * zeros;
                times.zero.add(zero_time, f64::from(zeros));
                times
                    .hash
                    .add(both.saturating_sub(zero_time), whole.len() as f64);

                for number in &whole {
                    let page = &pages[number * page_size..][..page_size];
                    let frame = first + *number as u64;
                    if self.equal.contains(&frame) {
                        let begin = CpuTime::now();
                        let same = comparer.pages(PageFrame(frame), 1)? == page;
                        std::hint::black_box(same);
                        times.equal.add(begin.elapsed().saturating_sub(clock), 1.0);
                        continue;
                    }
                    let begin = CpuTime::now();
                    let room = &mut data[used..used + page_size];
                    let size = if stores {
                        None
                    } else {
                        compressor.compress(page, &mut room[..page_size - 1])
                    };
                    let time = match size {
                        Some(size) => {
                            used += size;
                            times.compressed_bytes += size as f64;
                            &mut times.compressible
                        }
                        None => {
                            room.copy_from_slice(page);
                            used += page_size;
                            &mut times.incompressible
                        }
                    };
                    time.add(begin.elapsed().saturating_sub(clock), 1.0);
                }
            }
            let begin = CpuTime::now();
            let descriptors = vec![0_u8; pages_in_unit * DESCRIPTOR_BYTES as usize];
            file.write_all_at(&data[..used], offset)?;
            file.write_all_at(&descriptors, index)?;
            times
                .write
                .add(begin.elapsed(), (used + descriptors.len()) as f64);
            offset += used as u64;
            index += descriptors.len() as u64;
        }
        Ok(times)
    }
}

/// Returns the time to detect that a page in the cache is zero.
fn zero_cost(page_size: usize) -> Duration {
    const ROUNDS: u32 = 16;
    let pages = vec![0_u8; READ_PAGES * page_size];
    let look = || {
        pages
            .chunks_exact(page_size)
            .filter(|page| is_zero(page))
            .count()
    };
    std::hint::black_box(look());
    let begin = CpuTime::now();
    for _ in 0..ROUNDS {
        std::hint::black_box(look());
    }
    begin.elapsed() / (ROUNDS * READ_PAGES as u32)
}

/// Splits runs of pages into pieces that are read at once.
fn pieces(runs: &UnitRuns) -> impl Iterator<Item = (u64, usize)> + '_ {
    runs.iter().flat_map(|(first, len)| {
        (0..*len)
            .step_by(READ_PAGES)
            .map(move |done| (first + done as u64, READ_PAGES.min(len - done)))
    })
}

/// A point in this thread's CPU time. Other load on the machine delays work, but does not add
/// to its CPU time.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime(Duration);

impl CpuTime {
    /// Returns the current CPU time.
    pub fn now() -> Self {
        Self(processor_time(ClockId::ThreadCPUTime))
    }

    /// Returns the CPU time used since.
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

/// Returns the cost of reading the clock.
fn clock_cost() -> Duration {
    const TIMES: u32 = 1000;
    let begin = CpuTime::now();
    for _ in 0..TIMES {
        std::hint::black_box(CpuTime::now());
    }
    begin.elapsed() / TIMES
}
