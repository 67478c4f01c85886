//! Errors of the table.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// The table cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A file or directory cannot be used.
    #[error("{}: cannot {action}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was to be done.
        action: &'static str,
        /// The reason.
        cause: io::Error,
    },
    /// A file is not Parquet, or a damaged one.
    #[error("{}: cannot {action}: {cause}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What was to be done.
        action: &'static str,
        /// The reason.
        cause: ParquetError,
    },
    /// A file of Parquet is no table of crashes, or one of another version.
    #[error("{}: {reason}", path.display())]
    NotATable {
        /// The file.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The output belongs to another run.
    #[error("{}: {reason}", path.display())]
    Busy {
        /// The file or directory.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
}

impl FleetError {
    /// Returns a function that adds the file and the action to an error.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io {
            path,
            action,
            cause,
        }
    }

    /// The same for an error of Parquet.
    pub(crate) fn parquet(path: &Path, action: &'static str) -> impl FnOnce(ParquetError) -> Self {
        let path = path.to_owned();
        move |cause| Self::Parquet {
            path,
            action,
            cause,
        }
    }
}
