//! The description of a machine and a dump, as far as it affects time.
//!
//! Times are in nanoseconds, sizes in bytes, rates in bytes per second.

use bigiron_helpers::MemoryBudget;
use serde::Serialize;

/// CPU time of an operation, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// With one helper.
    pub alone: f64,
    /// With several helpers, which share caches, cores and memory.
    pub beside: f64,
}

impl Cost {
    /// Returns a cost that is the same with one helper and with several.
    pub fn of(nanoseconds: f64) -> Self {
        Self {
            alone: nanoseconds,
            beside: nanoseconds,
        }
    }

    /// Returns the time with `helpers` helpers.
    pub fn at(self, helpers: usize) -> f64 {
        if helpers > 1 { self.beside } else { self.alone }
    }

    /// Returns the cost of `count` operations.
    pub fn times(self, count: f64) -> Self {
        Self {
            alone: self.alone * count,
            beside: self.beside * count,
        }
    }

    /// Returns the cost of both operations in sequence.
    pub fn plus(self, other: Self) -> Self {
        Self {
            alone: self.alone + other.alone,
            beside: self.beside + other.beside,
        }
    }
}

/// The work that a helper takes at once: a section of the filter or a batch of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WorkItem {
    /// Transfer of bytes of the source over the shared bus.
    pub source: Cost,
    /// Examination and compression of pages.
    pub cpu: Cost,
    /// write(): the copy into the page cache, under the file's lock.
    pub write: Cost,
    /// Number of bytes added to the dump.
    pub bytes: f64,
    /// Number of TLB flushes that interrupt other CPUs.
    pub flushes: f64,
}

/// A pass over all memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pass {
    /// Name of the pass.
    pub name: &'static str,
    /// Number of pieces.
    pub pieces: u64,
    /// The average piece.
    pub piece: WorkItem,
    /// Variation between pieces: 0 for equal pieces, 1 for a range from nothing to twice the
    /// mean.
    pub spread: f64,
}

/// Growth of the cost of a TLB flush with the number `n` of online CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum FlushGrowth {
    /// The sender waits for the slowest of `n - 1` answers, each with an exponentially
    /// distributed delay: the mean grows with the harmonic number.
    SlowestAnswer,
    /// Each of the other `n - 1` CPUs costs this one as much: its flushes interrupt this one and
    /// empty its TLB, or it uses memory that both share.
    EveryCpu,
}

impl FlushGrowth {
    /// Returns the cost as a multiple of that with one other CPU.
    pub fn factor(self, cpus: usize) -> f64 {
        let others = cpus.saturating_sub(1);
        match self {
            Self::SlowestAnswer => (1..=others).map(|k| 1.0 / k as f64).sum(),
            Self::EveryCpu => others as f64,
        }
    }
}

/// TLB flushes across CPUs, as caused by /proc/vmcore.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flush {
    /// Time with one other CPU.
    pub nanoseconds: f64,
    /// Growth with more CPUs.
    pub growth: FlushGrowth,
}

/// The memory available to helpers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Total for all helpers.
    pub budget: u64,
    /// Memory that all helpers share.
    pub shared: u64,
    /// Memory per helper.
    pub per_helper: u64,
}

/// The machine that makes the dump.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Requested number of helpers; memory may allow fewer.
    pub helpers: usize,
    /// Memory limit of the helpers.
    pub memory: Option<Memory>,
    /// Time to take a piece of work, which one helper does at a time.
    pub take: f64,
    /// Number of helpers that can read the source at full speed concurrently.
    pub bus_helpers: f64,
    /// TLB flushes across CPUs.
    pub flush: Option<Flush>,
    /// True if writes go to one file, whose lock admits one at a time.
    pub one_file: bool,
    /// Additional time of a write that had to wait for the lock.
    pub hand_over: f64,
    /// Number of disks over which the dump is striped.
    pub disks: usize,
    /// Write rate of each disk; infinite if no disk is involved.
    pub disk_rate: f64,
    /// Bytes that may wait for the disks, in the page cache or a queue.
    pub buffer: f64,
    /// True if a helper waits until its bytes are on disk.
    pub synchronous: bool,
    /// Time before the first pass.
    pub start: f64,
    /// Time after the last byte.
    pub finish: f64,
    /// Seed of the variation between pieces.
    pub seed: u64,
}

impl Default for Machine {
    /// One helper; only its own work takes time.
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
    /// Returns the number of helpers that fit in the memory.
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
