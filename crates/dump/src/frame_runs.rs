//! Sets of page frames, stored as runs.

use bigiron_format::PageFrame;

/// Maximum number of stored runs; page frames beyond are only counted.
pub const MAX_RUNS: usize = 1 << 16;

/// Consecutive page frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// The lowest page frame.
    pub first: PageFrame,
    /// The number of page frames.
    pub count: u64,
}

impl FrameRun {
    /// The page frame after the last one.
    pub fn end(&self) -> PageFrame {
        PageFrame(self.first.0 + self.count)
    }
}

/// A set of page frames: their number and, as far as stored, the frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameRuns {
    count: u64,
    /// In order and not adjacent.
    runs: Vec<FrameRun>,
    /// The page frame up to which `runs` is complete; `None` if it is complete.
    complete_until: Option<PageFrame>,
}

impl FrameRuns {
    /// The number of page frames.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The lowest page frame.
    pub fn first(&self) -> Option<PageFrame> {
        self.runs.first().map(|run| run.first)
    }

    /// The lowest page frames, as runs in order; all of them unless there are very many.
    pub fn runs(&self) -> &[FrameRun] {
        &self.runs
    }

    /// Returns true if [`Self::runs`] has all page frames.
    pub fn is_complete(&self) -> bool {
        self.complete_until.is_none()
    }

    /// Adds page frames above all that were added before.
    pub fn add(&mut self, run: FrameRun) {
        self.count += run.count;
        if self.complete_until.is_some() {
            return;
        }
        let is_full = self.runs.len() == MAX_RUNS;
        match self.runs.last_mut() {
            Some(last) if last.end() == run.first => last.count += run.count,
            Some(last) if is_full => self.complete_until = Some(last.end()),
            _ => self.runs.push(run),
        }
    }

    /// Adds the page frames of another set.
    pub fn merge(&mut self, other: Self) {
        let complete_until = [self.complete_until, other.complete_until]
            .into_iter()
            .flatten()
            .min();
        let count = self.count + other.count;
        let mut runs = std::mem::take(&mut self.runs);
        runs.extend(other.runs);
        runs.sort_unstable_by_key(|run| run.first);
        *self = Self::default();
        for run in runs {
            if complete_until.is_none_or(|end| run.first < end) {
                self.add(run);
            }
        }
        self.count = count;
        self.complete_until = [self.complete_until, complete_until]
            .into_iter()
            .flatten()
            .min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, count: u64) -> FrameRun {
        FrameRun {
            first: PageFrame(first),
            count,
        }
    }

    fn of(runs: &[(u64, u64)]) -> FrameRuns {
        let mut all = FrameRuns::default();
        runs.iter()
            .for_each(|(first, count)| all.add(run(*first, *count)));
        all
    }

    #[test]
    fn adjacent_frames_merge_into_one_run() {
        let mut all = of(&[(1, 1), (2, 2), (10, 1)]);
        assert_eq!(all.runs(), [run(1, 3), run(10, 1)]);
        all.merge(of(&[(4, 6), (20, 1)]));
        assert_eq!(all.runs(), [run(1, 10), run(20, 1)]);
        assert_eq!((all.count(), all.first()), (11, Some(PageFrame(1))));
        assert!(all.is_complete());
    }

    #[test]
    fn beyond_the_maximum_runs_are_dropped_and_frames_still_counted() {
        let many = |from: u64| {
            let mut all = FrameRuns::default();
            (0..MAX_RUNS as u64 + 5).for_each(|n| all.add(run(from + 4 * n, 1)));
            all
        };
        let (mut even, odd) = (many(0), many(2));
        even.merge(odd);
        assert_eq!(even.count(), 2 * (MAX_RUNS as u64 + 5));
        assert!(!even.is_complete());
        let expected: Vec<FrameRun> = (0..MAX_RUNS as u64).map(|n| run(2 * n, 1)).collect();
        assert_eq!(even.runs(), expected);
    }
}
