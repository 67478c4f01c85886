//! Why a tunable is not set.

use std::io;
use std::path::PathBuf;

/// Why a tunable is not set.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// What was written is no number that it takes.
    #[error("{text:?}: expected a number from 0 to {most}")]
    Value {
        /// What was written.
        text: String,
        /// The largest.
        most: u64,
    },
    /// The kernel shows no files of domains.
    #[error(
        "{}: the kernel shows no scheduler domains there; debugfs must be mounted (`mount -t debugfs none \
         /sys/kernel/debug`), and the kernel not be booted with debugfs=off", root.display()
    )]
    NoFiles {
        /// Where they would be.
        root: PathBuf,
    },
    /// Nobody may write to the kernel's files.
    #[error(
        "{}: {source}; be root, outside of what forbids debugfs, on a kernel that is not locked down \
         (/sys/kernel/security/lockdown)", path.display()
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel's file cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel's files cannot be made to show, or not be hidden again.
    #[error("{}: {reason}", path.display())]
    Verbose {
        /// The switch.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The domain became another one meanwhile.
    #[error("{what}: the kernel built its domains anew meanwhile; try again")]
    Rebuilt {
        /// Which.
        what: String,
    },
    /// The kernel has another value than was written.
    #[error("{what}: {wanted} was written, and the kernel has {found}")]
    NotTaken {
        /// Which.
        what: String,
        /// What was written.
        wanted: u64,
        /// What it has.
        found: u64,
    },
    /// The domains cannot be read.
    #[error("{0}")]
    Source(String),
}

impl TuneError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { path, source },
            _ => Self::File { path, source },
        }
    }
}
