//! What a machine and a dump are made of, as far as time is concerned.
//!
//! Times are in nanoseconds, sizes in bytes, rates in bytes per second.

use bigiron_helpers::MemoryBudget;
use serde::Serialize;

/// The processor time of something, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// While one helper works.
    pub alone: f64,
    /// While others work beside it and share caches, cores and memory.
    pub beside: f64,
}

impl Cost {
    /// The same with and without others.
    pub fn of(nanoseconds: f64) -> Self {
        Self {
            alone: nanoseconds,
            beside: nanoseconds,
        }
    }

    /// What it is where `helpers` work.
    pub fn at(self, helpers: usize) -> f64 {
        if helpers > 1 { self.beside } else { self.alone }
    }

    /// `count` times as much.
    pub fn times(self, count: f64) -> Self {
        Self {
            alone: self.alone * count,
            beside: self.beside * count,
        }
    }

    /// One after the other.
    pub fn plus(self, other: Self) -> Self {
        Self {
            alone: self.alone + other.alone,
            beside: self.beside + other.beside,
        }
    }
}

/// What a helper takes at once: a chunk of the filter or a unit of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Piece {
    /// Bringing in bytes of the source; this is what helpers share the bus for.
    pub source: Cost,
    /// Looking at pages and compressing them.
    pub cpu: Cost,
    /// write(): the copy into the page cache, under the file's lock.
    pub write: Cost,
    /// Bytes that it adds to the dump.
    pub bytes: f64,
    /// TLB flushes that other CPUs are interrupted for.
    pub flushes: f64,
}

/// One pass over all of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pass {
    /// What it is called.
    pub name: &'static str,
    /// How many pieces it has.
    pub pieces: u64,
    /// What a piece is on average.
    pub piece: Piece,
    /// How far pieces differ: 0 not at all, 1 from nothing to twice the mean.
    pub spread: f64,
}

/// What one CPU's TLB flush costs where `n` CPUs are online.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum FlushGrowth {
    /// The sender waits for the slowest of `n - 1` answers, each with an
    /// exponential delay: the mean grows with the harmonic number.
    SlowestAnswer,
    /// Each of the other `n - 1` CPUs' flushes interrupts this one and empties
    /// its TLB.
    EveryCpu,
}

impl FlushGrowth {
    /// How often the cost of one other CPU has to be paid.
    pub fn factor(self, cpus: usize) -> f64 {
        let others = cpus.saturating_sub(1);
        match self {
            Self::SlowestAnswer => (1..=others).map(|k| 1.0 / k as f64).sum(),
            Self::EveryCpu => others as f64,
        }
    }
}

/// TLB flushes across CPUs, as /proc/vmcore causes them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flush {
    /// Nanoseconds with one other CPU.
    pub nanoseconds: f64,
    /// How that grows.
    pub growth: FlushGrowth,
}

/// The memory that helpers may take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// For all together.
    pub budget: u64,
    /// What all share.
    pub shared: u64,
    /// What each takes.
    pub per_helper: u64,
}

/// The machine that makes the dump.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Helpers that are wanted; memory may allow fewer.
    pub helpers: usize,
    /// What bounds them.
    pub memory: Option<Memory>,
    /// Taking a piece of work, one helper after the other.
    pub take: f64,
    /// How many helpers can read the source at full speed at the same time.
    pub bus_helpers: f64,
    /// TLB flushes across CPUs.
    pub flush: Option<Flush>,
    /// Whether writes go to one file, whose lock lets one at a time through.
    pub one_file: bool,
    /// What a write takes longer if it had to wait for the lock.
    pub hand_over: f64,
    /// Disks that the dump is striped over.
    pub disks: usize,
    /// What each can write; infinite if nothing has to reach a disk.
    pub disk_rate: f64,
    /// Bytes that may wait for the disks: the page cache or a queue.
    pub buffer: f64,
    /// A helper waits until its own bytes are on the disk.
    pub synchronous: bool,
    /// Before the first pass.
    pub start: f64,
    /// After the last byte.
    pub finish: f64,
    /// Seeds the differences between pieces.
    pub seed: u64,
}

impl Default for Machine {
    /// One helper; nothing but its own work takes time.
    fn default() -> Self {
        Self {
            helpers: 1,
            memory: None,
            take: 0.0,
            bus_helpers: f64::INFINITY,
            flush: None,
            one_file: false,
            hand_over: 0.0,
            disks: 1,
            disk_rate: f64::INFINITY,
            buffer: 256e6,
            synchronous: false,
            start: 0.0,
            finish: 0.0,
            seed: 1,
        }
    }
}

impl Machine {
    /// The helpers that fit into the memory.
    pub fn helpers_that_fit(&self) -> usize {
        match self.memory {
            None => self.helpers.max(1),
            Some(memory) => MemoryBudget::of(memory.budget).helpers(
                self.helpers,
                memory.shared,
                memory.per_helper,
            ),
        }
    }
}
