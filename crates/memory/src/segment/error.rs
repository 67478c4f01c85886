//! What can go wrong with a segment.

use rustix::io::Errno;

/// Why something was not done. Nothing of what was begun is left.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SegmentError {
    /// A limit of the system does not allow it. Nothing was begun.
    #[error("{what}: {wanted} bytes are wanted, and {limit} allows {allowed}; {remedy}")]
    Limit {
        /// What was to be made.
        what: String,
        /// Bytes that were asked for.
        wanted: u64,
        /// The limit's name.
        limit: String,
        /// Bytes that it allows now.
        allowed: u64,
        /// What to do about it.
        remedy: String,
        /// What the system would have answered.
        errno: Errno,
    },
    /// The request makes no sense.
    #[error("{what}: expected {expected}")]
    Wrong {
        /// What was asked for.
        what: String,
        /// What can be asked for.
        expected: String,
    },
    /// The system refused.
    #[error("{what}: cannot {action}: {}{hint}", describe(.errno))]
    System {
        /// What it was done with.
        what: String,
        /// What was tried.
        action: &'static str,
        /// The answer.
        errno: Errno,
        /// What may be done about it, behind a semicolon; or nothing.
        hint: &'static str,
    },
    /// A signal or the caller wanted an end.
    #[error("{what}: interrupted")]
    Interrupted {
        /// What was being done.
        what: String,
    },
}

impl SegmentError {
    /// As a system call would say it.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Limit { errno, .. } | Self::System { errno, .. } => *errno,
            Self::Wrong { .. } => Errno::INVAL,
            Self::Interrupted { .. } => Errno::INTR,
        }
    }

    /// The system refused to do `action` with `what`.
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

/// `No space left on device`, without the number behind it.
fn describe(errno: &Errno) -> String {
    let text = std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
