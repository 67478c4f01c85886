//! Comparison of the dumps that two programs made of the same source.

use std::path::Path;

use bigiron_dump::{Comparison, DumpError, FrameRuns, Progress, compare};
use bigiron_helpers::Stop;
use bigiron_kernel::Source;
use serde::Serialize;

/// Number and first of the page frames with a common property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Frames {
    /// Number of page frames.
    pub count: u64,
    /// The lowest page frame.
    pub first: Option<u64>,
}

impl From<FrameRuns> for Frames {
    fn from(frames: FrameRuns) -> Self {
        Self {
            count: frames.count(),
            first: frames.first().map(|frame| frame.0),
        }
    }
}

/// Result of comparing the dumps of two programs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Agreement {
    /// Names of the programs.
    pub between: [String; 2],
    /// Number of pages that are in both dumps and equal.
    pub equal: u64,
    /// Pages that are in both dumps and differ.
    pub different: Frames,
    /// Pages that are only in the first dump.
    pub only_first: Frames,
    /// Pages that are only in the second dump.
    pub only_second: Frames,
    /// Pages that are unreadable in one of the dumps.
    pub unreadable: Frames,
    /// Reason why the dumps cannot be compared.
    pub error: Option<String>,
}

impl Agreement {
    /// Compares two dumps; `between` are the names of their programs.
    pub fn of(
        between: [&str; 2],
        first: &Path,
        second: &Path,
        helpers: usize,
        stop: &Stop,
    ) -> Result<Self, DumpError> {
        let compared = || -> Result<Comparison, DumpError> {
            let first = Source::open(&[first.to_owned()])?;
            let second = Source::open(&[second.to_owned()])?;
            let (first, second) = (first.memory(), second.memory());
            compare(first, second, helpers, &Progress::new(), stop)
        };
        let between = between.map(str::to_owned);
        match compared() {
            Ok(found) => Ok(Self {
                between,
                equal: found.equal,
                different: found.different.into(),
                only_first: found.only_first.into(),
                only_second: found.only_second.into(),
                unreadable: found.unreadable.into(),
                error: None,
            }),
            Err(error @ DumpError::Interrupted { .. }) => Err(error),
            Err(error) => Ok(Self {
                between,
                error: Some(error.to_string()),
                ..Self::default()
            }),
        }
    }

    /// True if one of the dumps is wrong: a page frame has different contents, or a dump cannot
    /// be read. A different selection of pages is not wrong, because programs may have good
    /// reasons for it.
    pub fn is_wrong(&self) -> bool {
        self.different.count > 0 || self.error.is_some()
    }

    /// True if the dumps have the same pages with the same contents.
    pub fn is_equal(&self) -> bool {
        let others = [self.only_first, self.only_second, self.unreadable];
        !self.is_wrong() && others.iter().all(|frames| frames.count == 0)
    }

    /// Describes the differences in a sentence; empty if there are none.
    pub fn sentence(&self) -> String {
        let [first, second] = &self.between;
        if let Some(error) = &self.error {
            return format!("{first} and {second} cannot be compared: {error}");
        }
        let parts = [
            ("differ".to_owned(), self.different),
            (format!("are only in {first}'s dump"), self.only_first),
            (format!("are only in {second}'s dump"), self.only_second),
            (
                "cannot be read in one of the dumps".to_owned(),
                self.unreadable,
            ),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter_map(|(what, frames)| {
                let first = frames.first?;
                Some(format!("{} pages {what} (first {first:#x})", frames.count))
            })
            .collect();
        if parts.is_empty() {
            return String::new();
        }
        format!(
            "{first} and {second}: {} pages are equal, {}",
            self.equal,
            parts.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(count: u64) -> Frames {
        Frames {
            count,
            first: (count > 0).then_some(0x10),
        }
    }

    fn agreement(different: u64, only_first: u64) -> Agreement {
        Agreement {
            between: ["makedumpfile", "bigiron"].map(str::to_owned),
            equal: 7,
            different: frames(different),
            only_first: frames(only_first),
            ..Agreement::default()
        }
    }

    #[test]
    fn additional_pages_are_not_wrong_and_different_contents_are() {
        assert!(agreement(0, 0).is_equal() && !agreement(0, 0).is_wrong());
        assert_eq!(agreement(0, 0).sentence(), "");
        let more = agreement(0, 3);
        assert!(!more.is_equal() && !more.is_wrong());
        assert_eq!(
            more.sentence(),
            "makedumpfile and bigiron: 7 pages are equal, 3 pages are only in makedumpfile's dump \
             (first 0x10)"
        );
        assert!(agreement(1, 0).is_wrong() && !agreement(1, 0).is_equal());
    }

    #[test]
    fn file_that_is_not_a_dump_is_reported_as_wrong() {
        let nothing = Path::new("/dev/null");
        let found = Agreement::of(["a", "b"], nothing, nothing, 1, &Stop::new()).unwrap();
        assert!(found.is_wrong());
        assert!(found.sentence().contains("/dev/null"), "{found:?}");
    }
}
