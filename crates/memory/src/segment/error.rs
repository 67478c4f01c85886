//! Errors of segment operations.

use rustix::io::Errno;

/// Reason why an operation failed. A failed operation leaves nothing behind.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SegmentError {
    /// A limit of the system does not allow the request. Nothing was created.
    #[error("{what}: {wanted} bytes requested, but {limit} allows {allowed}; {remedy}")]
    Limit {
        /// The requested memory.
        what: String,
        /// Requested bytes.
        wanted: u64,
        /// Name of the limit.
        limit: String,
        /// Bytes that it currently allows.
        allowed: u64,
        /// How to raise the limit.
        remedy: String,
        /// The errno that the system call would have returned.
        errno: Errno,
    },
    /// The request is invalid.
    #[error("{what}: expected {expected}")]
    Wrong {
        /// The invalid value.
        what: String,
        /// The expected values.
        expected: String,
    },
    /// A system call failed.
    #[error("{what}: cannot {action}: {}{hint}", describe(.errno))]
    System {
        /// The object of the call.
        what: String,
        /// The attempted action.
        action: &'static str,
        /// The error.
        errno: Errno,
        /// Advice, after a semicolon; may be empty.
        hint: &'static str,
    },
    /// A signal or the caller ended the operation early.
    #[error("{what}: interrupted")]
    Interrupted {
        /// The object of the operation.
        what: String,
    },
}

impl SegmentError {
    /// Returns the errno of a corresponding system call.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Limit { errno, .. } | Self::System { errno, .. } => *errno,
            Self::Wrong { .. } => Errno::INVAL,
            Self::Interrupted { .. } => Errno::INTR,
        }
    }

    /// Creates the error of a failed system call.
    pub(crate) fn system(what: impl Into<String>, action: &'static str, errno: Errno) -> Self {
        Self::System {
            what: what.into(),
            action,
            errno,
            hint: "",
        }
    }

    pub(crate) fn hinted(self, text: &'static str) -> Self {
        match self {
            Self::System {
                what,
                action,
                errno,
                ..
            } => Self::System {
                what,
                action,
                errno,
                hint: text,
            },
            other => other,
        }
    }
}

/// Returns the text of an errno without its number.
fn describe(errno: &Errno) -> String {
    let text = std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
