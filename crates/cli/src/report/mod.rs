//! A dump as one page for a browser: what the kernel stopped by, where its memory
//! went, and its log. The page needs no network and no other file, and what stands
//! in it is bounded whatever the machine's size.

mod domains;
mod gather;
mod log;
mod map;
mod page;
mod time_line;
mod users;

pub use gather::{Report, ReportOptions};
pub use page::render;
pub use time_line::{MAX_TIME_LINE_BYTES, TimeLine};

/// A part of the report that is known, or why it is not.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum Part<T> {
    /// It.
    Known(T),
    /// Why not.
    NotKnown {
        /// The reason, for people.
        not_known: String,
    },
}

impl<T> Part<T> {
    /// A part that is not known.
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
