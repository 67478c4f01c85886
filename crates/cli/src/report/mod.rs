//! A dump as one HTML page: why the kernel stopped, its memory by use, and its log. The page
//! needs no network and no other file, and its size is bounded whatever the machine's size.

mod domains;
mod findings;
mod gather;
mod log;
mod map;
mod page;
mod time_line;
mod users;
mod wait_graph;

pub use gather::{Report, ReportOptions};
#[cfg(feature = "triage")]
pub use page::CRASHES;
pub use page::{REPORT, render};
pub use time_line::{MAX_TIME_LINE_BYTES, TimeLine};

/// Data of the report, or the reason why it is unknown.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum Part<T> {
    /// The data.
    Known(T),
    /// Unknown.
    NotKnown {
        /// The reason.
        not_known: String,
    },
}

impl<T> Part<T> {
    /// Creates an unknown part.
    pub fn not_known(reason: impl ToString) -> Self {
        Self::NotKnown {
            not_known: reason.to_string(),
        }
    }
}

impl<T, E: ToString> From<Result<T, E>> for Part<T> {
    fn from(found: Result<T, E>) -> Self {
        match found {
            Ok(found) => Self::Known(found),
            Err(error) => Self::not_known(error),
        }
    }
}
