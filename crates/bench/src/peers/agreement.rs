//! Whether two programs made the same of a source.

use std::path::Path;

use bigiron_dump::{Comparison, DumpError, FrameRuns, Progress, compare};
use bigiron_helpers::Stop;
use bigiron_kernel::Source;
use serde::Serialize;

/// Page frames with something in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Frames {
    /// How many.
    pub count: u64,
    /// The lowest of them.
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

/// How what two programs made compares.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Agreement {
    /// The programs.
    pub between: [String; 2],
    /// Pages that both have and that are equal.
    pub equal: u64,
    /// Pages that both have, with other bytes.
    pub different: Frames,
    /// Pages that only the first has.
    pub only_first: Frames,
    /// Pages that only the second has.
    pub only_second: Frames,
    /// Pages that one of them cannot give.
    pub unreadable: Frames,
    /// Why they cannot be compared.
    pub error: Option<String>,
}

impl Agreement {
    /// Compares two dumps; `between` says whose they are.
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

    /// Whether one of both is wrong: the same page frame has other bytes, or
    /// a dump cannot be read. Programs may keep other pages for good reasons.
    pub fn is_wrong(&self) -> bool {
        self.different.count > 0 || self.error.is_some()
    }

    /// Whether both made the same.
    pub fn is_equal(&self) -> bool {
        let others = [self.only_first, self.only_second, self.unreadable];
        !self.is_wrong() && others.iter().all(|frames| frames.count == 0)
    }

    /// What is not equal, for people; empty if all is.
    pub fn sentence(&self) -> String {
        let [first, second] = &self.between;
        if let Some(error) = &self.error {
            return format!("{first} and {second} cannot be compared: {error}");
        }
        let parts = [
            ("differ".to_owned(), self.different),
            (format!("are only in {first}'s dump"), self.only_first),
            (format!("are only in {second}'s dump"), self.only_second),
            ("cannot be read in one of both".to_owned(), self.unreadable),
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
    fn other_pages_is_complete_and_other_bytes_are_wrong() {
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
    fn what_is_no_dump_cannot_be_compared() {
        let nothing = Path::new("/dev/null");
        let found = Agreement::of(["a", "b"], nothing, nothing, 1, &Stop::new()).unwrap();
        assert!(found.is_wrong());
        assert!(found.sentence().contains("/dev/null"), "{found:?}");
    }
}
