//! Page frames with something in common, as runs.

use bigiron_format::PageFrame;

/// Runs that are remembered; beyond, page frames are only counted.
pub const MOST_RUNS: usize = 1 << 16;

/// Page frames next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// The lowest.
    pub first: PageFrame,
    /// How many.
    pub count: u64,
}

impl FrameRun {
    /// The page frame behind the last one.
    pub fn end(&self) -> PageFrame {
        PageFrame(self.first.0 + self.count)
    }
}

/// Page frames with something in common: how many, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameRuns {
    count: u64,
    /// In order, none next to another.
    runs: Vec<FrameRun>,
    /// Behind the last page frame that `runs` tells all of; `None` if it tells of
    /// every one.
    told_until: Option<PageFrame>,
}

impl FrameRuns {
    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The lowest.
    pub fn first(&self) -> Option<PageFrame> {
        self.runs.first().map(|run| run.first)
    }

    /// The lowest ones, as runs in order: all, unless there are very many.
    pub fn runs(&self) -> &[FrameRun] {
        &self.runs
    }

    /// Whether [`Self::runs`] are all.
    pub fn are_told(&self) -> bool {
        self.told_until.is_none()
    }

    /// Adds page frames behind all that are there.
    pub fn add(&mut self, run: FrameRun) {
        self.count += run.count;
        if self.told_until.is_some() {
            return;
        }
        let is_full = self.runs.len() == MOST_RUNS;
        match self.runs.last_mut() {
            Some(last) if last.end() == run.first => last.count += run.count,
            Some(last) if is_full => self.told_until = Some(last.end()),
            _ => self.runs.push(run),
        }
    }

    /// Adds others, wherever they are.
    pub fn merge(&mut self, other: Self) {
        let told_until = [self.told_until, other.told_until]
            .into_iter()
            .flatten()
            .min();
        let count = self.count + other.count;
        let mut runs = std::mem::take(&mut self.runs);
        runs.extend(other.runs);
        runs.sort_unstable_by_key(|run| run.first);
        *self = Self::default();
        for run in runs {
            if told_until.is_none_or(|end| run.first < end) {
                self.add(run);
            }
        }
        self.count = count;
        self.told_until = [self.told_until, told_until].into_iter().flatten().min();
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
    fn neighbours_become_one_run_wherever_they_were_found() {
        let mut all = of(&[(1, 1), (2, 2), (10, 1)]);
        assert_eq!(all.runs(), [run(1, 3), run(10, 1)]);
        all.merge(of(&[(4, 6), (20, 1)]));
        assert_eq!(all.runs(), [run(1, 10), run(20, 1)]);
        assert_eq!((all.count(), all.first()), (11, Some(PageFrame(1))));
        assert!(all.are_told());
    }

    #[test]
    fn of_very_many_the_lowest_are_told_and_all_are_counted() {
        let many = |from: u64| {
            let mut all = FrameRuns::default();
            (0..MOST_RUNS as u64 + 5).for_each(|n| all.add(run(from + 4 * n, 1)));
            all
        };
        let (mut even, odd) = (many(0), many(2));
        even.merge(odd);
        assert_eq!(even.count(), 2 * (MOST_RUNS as u64 + 5));
        assert!(!even.are_told());
        let expected: Vec<FrameRun> = (0..MOST_RUNS as u64).map(|n| run(2 * n, 1)).collect();
        assert_eq!(even.runs(), expected);
    }
}
