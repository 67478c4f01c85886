//! Errors of temporary kernel settings.

use std::io;
use std::path::PathBuf;

/// Error of changing or restoring kernel settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        cause: io::Error,
    },
    /// Another command with temporary settings is still running.
    #[error("{} is locked: {holder} is running; wait for its end, or see `bigiron cpu restore`", path.display())]
    Busy {
        /// Path of the lock.
        path: PathBuf,
        /// Description of the lock's holder.
        holder: String,
    },
    /// The journal's directory is unsafe: others may write to it.
    #[error("{}: {reason}; expected a directory owned by the current user and writable only by that user", path.display())]
    Unsafe {
        /// Path of the directory.
        path: PathBuf,
        /// Reason why it is unsafe.
        reason: &'static str,
    },
    /// The journal cannot be parsed.
    #[error("{}: {cause}; inspect the file, restore the old values manually, and remove it", path.display())]
    Journal {
        /// Path of the journal.
        path: PathBuf,
        /// Parse error.
        cause: serde_json::Error,
    },
    /// The watchdog, which restores settings after a kill, cannot be started.
    #[error(
        "cannot start the watchdog, which restores settings after a kill: {0}; nothing was changed"
    )]
    Watchdog(io::Error),
    /// Some settings cannot be restored.
    #[error("settings not restored: {}; `bigiron cpu restore` tries again", .0.join("; "))]
    NotPutBack(Vec<String>),
}

impl SettingsError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |cause| Self::File { path, cause }
    }
}
