//! The chunks of page frames that a dump goes through.
//!
//! They grow with the machine, so they are held as runs, and what is kept of
//! each in little more than two bytes.

use bigiron_format::PageFrame;
use bigiron_kernel::{MemorySource, SECTION_FRAMES, SectionRanks};

/// One chunk of page frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedChunk {
    /// Its first page frame.
    pub first: PageFrame,
    /// Pages kept in all chunks before it.
    pub kept_before: u64,
    /// Pages kept in it.
    pub kept: u64,
}

/// Chunks that lie one behind the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: PageFrame,
    /// Chunks in all runs before.
    index: usize,
}

/// The chunks that may have RAM, in order, and how many pages of each are kept.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    runs: Vec<Run>,
    len: usize,
    kept: SectionRanks,
}

impl Chunks {
    /// The chunks of `source`, of which nothing is kept yet.
    pub fn of(source: &dyn MemorySource) -> Self {
        let mut chunks = Self::default();
        let mut end = None;
        for first in source.sections() {
            if end != Some(first) {
                let index = chunks.len;
                chunks.runs.push(Run { first, index });
            }
            chunks.len += 1;
            end = Some(PageFrame(first.0 + SECTION_FRAMES));
        }
        chunks
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Notes how many pages of each are kept.
    pub fn set_kept(&mut self, counts: Vec<u16>) {
        self.kept = SectionRanks::new(counts);
    }

    /// Pages kept of all.
    pub fn kept(&self) -> u64 {
        self.kept.total()
    }

    /// The `index`-th chunk; there must be one.
    pub fn at(&self, index: usize) -> PlannedChunk {
        let run = self.runs.partition_point(|run| run.index <= index);
        let run = run.checked_sub(1).map(|run| self.runs[run]);
        debug_assert!(run.is_some() && index < self.len);
        PlannedChunk {
            first: run.map_or(PageFrame(0), |run| {
                PageFrame(run.first.0 + (index - run.index) as u64 * SECTION_FRAMES)
            }),
            kept_before: self.kept.before(index),
            kept: self.kept.count(index),
        }
    }

    /// The number of the chunk that begins with `first`, if there is one.
    pub fn index_of(&self, first: PageFrame) -> Option<usize> {
        let run = self.runs.partition_point(|run| run.first <= first);
        let run = self.runs[run.checked_sub(1)?];
        let index = run.index + ((first.0 - run.first.0) / SECTION_FRAMES) as usize;
        (index < self.len && self.at(index).first == first).then_some(index)
    }

    /// All chunks in order.
    pub fn iter(&self) -> impl Iterator<Item = PlannedChunk> + '_ {
        (0..self.len).map(|index| self.at(index))
    }
}
