//! The sections of page frames that a dump covers.
//!
//! Their number grows with the machine, so they are stored as runs, and the number of pages
//! kept of each takes little more than two bytes.

use std::iter;

use bigiron_format::PageFrame;
use bigiron_kernel::{MemorySource, SECTION_FRAMES, SectionRanks};

/// One section of page frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedSection {
    /// Its first page frame.
    pub first: PageFrame,
    /// Pages kept in all sections before it.
    pub kept_before: u64,
    /// Pages kept in it.
    pub kept: u64,
}

/// Consecutive sections.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: PageFrame,
    /// Sections in all runs before.
    index: usize,
}

/// The sections that may have RAM, in order, and the number of pages kept of each.
#[derive(Clone, Debug, Default)]
pub struct Sections {
    runs: Vec<Run>,
    len: usize,
    kept: SectionRanks,
}

impl Sections {
    /// Lists the sections of `source`, with no page kept yet.
    pub fn of(source: &dyn MemorySource) -> Self {
        Self::from_starts(source.sections())
    }

    /// Lists the sections that either source has, with no page kept yet.
    pub fn of_both(one: &dyn MemorySource, other: &dyn MemorySource) -> Self {
        let mut both = [one.sections().peekable(), other.sections().peekable()];
        Self::from_starts(iter::from_fn(|| {
            let first = both.iter_mut().filter_map(|starts| starts.peek().copied());
            let first = first.min()?;
            for starts in &mut both {
                starts.next_if_eq(&first);
            }
            Some(first)
        }))
    }

    fn from_starts(starts: impl Iterator<Item = PageFrame>) -> Self {
        let mut sections = Self::default();
        let mut end = None;
        for first in starts {
            if end != Some(first) {
                let index = sections.len;
                sections.runs.push(Run { first, index });
            }
            sections.len += 1;
            end = Some(PageFrame(first.0 + SECTION_FRAMES));
        }
        sections
    }

    /// Returns the number of sections.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Sets the number of pages kept of each section.
    pub fn set_kept(&mut self, counts: Vec<u16>) {
        self.kept = SectionRanks::new(counts);
    }

    /// Returns the number of pages kept of all sections.
    pub fn kept(&self) -> u64 {
        self.kept.total()
    }

    /// Returns the section with number `index`, which must exist.
    pub fn at(&self, index: usize) -> PlannedSection {
        let run = self.runs.partition_point(|run| run.index <= index);
        let run = run.checked_sub(1).map(|run| self.runs[run]);
        debug_assert!(run.is_some() && index < self.len);
        PlannedSection {
            first: run.map_or(PageFrame(0), |run| {
                PageFrame(run.first.0 + (index - run.index) as u64 * SECTION_FRAMES)
            }),
            kept_before: self.kept.before(index),
            kept: self.kept.count(index),
        }
    }

    /// Returns the number of the section that begins with `first`, if there is one.
    pub fn index_of(&self, first: PageFrame) -> Option<usize> {
        let run = self.runs.partition_point(|run| run.first <= first);
        let run = self.runs[run.checked_sub(1)?];
        let index = run.index + ((first.0 - run.first.0) / SECTION_FRAMES) as usize;
        (index < self.len && self.at(index).first == first).then_some(index)
    }

    /// Iterates over all sections in order.
    pub fn iter(&self) -> impl Iterator<Item = PlannedSection> + '_ {
        (0..self.len).map(|index| self.at(index))
    }
}
