//! Errors of setting a tunable.

use std::io;
use std::path::PathBuf;

/// Error of setting a tunable.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The text is not a valid value of the tunable.
    #[error("{text:?}: expected a number from 0 to {most}")]
    Value {
        /// Text that was written.
        text: String,
        /// Largest valid value.
        most: u64,
    },
    /// The kernel has no files of domains.
    #[error(
        "{}: the kernel shows no scheduler domains there; debugfs must be mounted (`mount -t debugfs none \
         /sys/kernel/debug`), and the kernel booted without debugfs=off", root.display()
    )]
    NoFiles {
        /// Expected directory of the files.
        root: PathBuf,
    },
    /// The user may not write to the kernel's files.
    #[error(
        "{}: {cause}; run as root, where debugfs is not blocked, on a kernel that is not locked down \
         (/sys/kernel/security/lockdown)", path.display()
    )]
    Denied {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        cause: io::Error,
    },
    /// The kernel's file cannot be written.
    #[error("{}: {cause}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        cause: io::Error,
    },
    /// The kernel's files cannot be shown, or cannot be hidden again.
    #[error("{}: {reason}", path.display())]
    Verbose {
        /// Path of sched/verbose.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The domain was replaced in the meantime.
    #[error("{what}: the kernel rebuilt its domains in the meantime; try again")]
    Rebuilt {
        /// Path of the tunable.
        what: String,
    },
    /// The kernel has a different value than was written.
    #[error("{what}: {wanted} was written, but the kernel has {found}")]
    NotTaken {
        /// Path of the tunable.
        what: String,
        /// Value that was written.
        wanted: u64,
        /// Value that the kernel has.
        found: u64,
    },
    /// The domains cannot be read.
    #[error("{0}")]
    Source(String),
}

impl TuneError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |cause| match cause.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { path, cause },
            _ => Self::File { path, cause },
        }
    }
}
