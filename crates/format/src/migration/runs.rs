//! Where the pages are in the file, as runs of pages.

use std::collections::BTreeMap;

use crate::error::FormatError;

/// Maximum number of runs: those of a guest that changed two million of its pages at random.
const MAX_RUNS: usize = 4 << 20;

/// The contents of the pages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Data in the file: offset of the first page, and distance from one page to the next.
    Data { offset: u64, stride: u64 },
    /// Every byte of every page is this one.
    Filled(u8),
}

/// Consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) pages: u64,
    pub(super) contents: Contents,
}

/// The pages of a stream, by the number of the first page of each run. No two runs overlap.
#[derive(Default)]
pub(super) struct Runs {
    runs: BTreeMap<u64, Run>,
    /// First page of the run that grew last.
    last: u64,
}

impl Runs {
    /// Adds a page, in place of an earlier one with the same number. The page's entry in the
    /// stream is at offset `at`.
    pub(super) fn push(
        &mut self,
        page: u64,
        contents: Contents,
        at: u64,
    ) -> Result<(), FormatError> {
        if self.find(page).is_some() {
            self.remove(page);
        }
        let last = self.last;
        if let Some(run) = self.runs.get_mut(&last)
            && last + run.pages == page
            && run.contents.after(run.pages) == contents.start()
        {
            run.pages += 1;
            return Ok(());
        }
        if self.runs.len() >= MAX_RUNS {
            return Err(FormatError::unexpected(
                "the pages of the stream",
                at,
                format!("at most {MAX_RUNS} runs of pages"),
                "more",
            ));
        }
        self.runs.insert(page, Run { pages: 1, contents });
        self.last = page;
        Ok(())
    }

    /// Returns the run that begins at a page, which is in the stream, and goes on from there.
    pub(super) fn find(&self, page: u64) -> Option<Run> {
        let (first, run) = self.runs.range(..=page).next_back()?;
        let inside = page - first;
        (inside < run.pages).then(|| Run {
            pages: run.pages - inside,
            contents: run.contents.skip(inside),
        })
    }

    /// Returns the next run at or behind `page` and before `end`: its first page and length.
    pub(super) fn next(&self, page: u64, end: u64) -> Option<(u64, u64)> {
        if let Some(run) = self.find(page) {
            return (page < end).then(|| (page, run.pages.min(end - page)));
        }
        let (first, run) = self.runs.range(page..end).next()?;
        Some((*first, run.pages.min(end - first)))
    }

    /// Cuts a page out of its run.
    fn remove(&mut self, page: u64) {
        let Some((first, run)) = self.runs.range(..=page).next_back() else {
            return;
        };
        let (first, run) = (*first, *run);
        let inside = page - first;
        if inside >= run.pages {
            return;
        }
        self.runs.remove(&first);
        if inside > 0 {
            let front = Run {
                pages: inside,
                contents: run.contents,
            };
            self.runs.insert(first, front);
        }
        if inside + 1 < run.pages {
            let back = Run {
                pages: run.pages - inside - 1,
                contents: run.contents.skip(inside + 1),
            };
            self.runs.insert(page + 1, back);
        }
    }
}

impl Contents {
    /// The contents of the page that is so many pages behind.
    fn skip(self, pages: u64) -> Self {
        match self {
            Self::Data { offset, stride } => Self::Data {
                offset: offset + pages * stride,
                stride,
            },
            filled => filled,
        }
    }

    /// The place where a run of so many pages goes on.
    fn after(self, pages: u64) -> (u64, Option<u8>) {
        self.skip(pages).start()
    }

    fn start(self) -> (u64, Option<u8>) {
        match self {
            Self::Data { offset, .. } => (offset, None),
            Self::Filled(byte) => (0, Some(byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    fn data(offset: u64) -> Contents {
        Contents::Data { offset, stride: 10 }
    }

    #[test]
    fn consecutive_pages_are_one_run_and_a_later_page_replaces_an_earlier_one() {
        let mut runs = Runs::default();
        for page in 0..10 {
            runs.push(page, data(100 + page * 10), 0).unwrap();
        }
        assert_eq!(runs.runs.len(), 1);
        runs.push(4, data(500), 0).unwrap();
        runs.push(5, Contents::Filled(0), 0).unwrap();
        runs.push(4, data(600), 0).unwrap();
        let at = |page| runs.find(page).map(|run| run.contents);
        assert_eq!(at(3), Some(data(130)));
        assert_eq!(at(4), Some(data(600)));
        assert_eq!(at(5), Some(Contents::Filled(0)));
        assert_eq!(at(6), Some(data(160)));
        assert_eq!(at(10), None);
        assert_eq!(runs.next(3, 20), Some((3, 1)));
        assert_eq!(runs.next(10, 20), None);
    }

    #[test]
    fn first_and_last_page_of_a_run_are_replaced() {
        let mut runs = Runs::default();
        for page in 5..8 {
            runs.push(page, Contents::Filled(0), 0).unwrap();
        }
        runs.push(5, Contents::Filled(1), 0).unwrap();
        runs.push(7, Contents::Filled(2), 0).unwrap();
        let all: Vec<_> = (4..9).map(|page| runs.find(page)).collect();
        let run = |byte| {
            Some(Run {
                pages: 1,
                contents: Contents::Filled(byte),
            })
        };
        assert_eq!(all, [None, run(1), run(0), run(2), None]);
    }
}
