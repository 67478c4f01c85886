//! What goes wrong with settings.

use std::io;
use std::path::PathBuf;

/// Why settings of the kernel were not changed, or not put back.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another command has changed settings for a while, and is still at work.
    #[error("{} is held: {holder} is at work; wait for its end, or see `bigiron cpu restore`", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// The journal's directory may be written by others.
    #[error("{}: {reason}; expected a directory that only its owner, the user who runs this, can write", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// The journal makes no sense.
    #[error("{}: {source}; see what it holds, put the old values back by hand, and remove it", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Nobody would put the settings back after a kill.
    #[error(
        "the process that would put settings back after a kill does not start: {0}; nothing was changed"
    )]
    Watchdog(io::Error),
    /// Some settings are not as they were.
    #[error("not put back: {}; `bigiron cpu restore` tries again", .0.join("; "))]
    NotPutBack(Vec<String>),
}

impl SettingsError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::File { path, source }
    }
}
