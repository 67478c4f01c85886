//! Why a dump was not made.

use std::io;
use std::path::{Path, PathBuf};

use bigiron_format::PageFrame;
use bigiron_format::codec::CodecError;
use bigiron_kernel::{KernelError, SourceError};

/// A dump was not made, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The source or the kernel in it cannot be read or understood.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The pages cannot be told apart.
    #[error("cannot filter at dump level {level}: {source}; with -d 1 all pages are dumped")]
    Filter {
        /// The dump level.
        level: u8,
        /// Why not.
        source: KernelError,
    },
    /// The codec does not work.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The output file cannot be made.
    #[error("{}: cannot {action}: {source}{hint}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
        /// What to do, in front of it a separator.
        hint: &'static str,
    },
    /// Writing failed half-way.
    #[error("{}: cannot write: {source}{}", path.display(), kept_as(kept))]
    Write {
        /// The output by its final name.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// The file that has what was written until then.
        kept: Option<PathBuf>,
    },
    /// The dump was stopped from outside.
    #[error("interrupted{}", kept_as(kept))]
    Interrupted {
        /// The file that has what was written until then.
        kept: Option<PathBuf>,
    },
    /// A raw dump device is not written to, or not read.
    #[error("{}: {reason}", path.display())]
    Device {
        /// The device.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The layout does not fit.
    #[error("{0}")]
    Layout(String),
    /// Two dumps do not hold the same.
    #[error("page frame {frame}: {reason}")]
    Differs {
        /// The first page frame that differs.
        frame: PageFrame,
        /// How.
        reason: String,
    },
}

impl DumpError {
    /// Makes of an error of writing one about `path`, of which nothing is kept.
    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Write {
            path: path.to_owned(),
            source,
            kept: None,
        }
    }

    /// Makes of an error of the system one of `path`, where `action` was tried; `hint`
    /// says what to do, in front of it a separator.
    pub(crate) fn output(
        path: &Path,
        action: &'static str,
        hint: &'static str,
    ) -> impl Fn(io::Error) -> Self {
        move |source| Self::Output {
            path: path.to_owned(),
            action,
            source,
            hint,
        }
    }

    /// Whether there was no room for all of the dump, so that a smaller one may
    /// still be made: a full disk, a quota, a size limit.
    pub fn is_output_full(&self) -> bool {
        let Self::Write { source, .. } = self else {
            return false;
        };
        matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded
        )
    }
}

impl From<SourceError> for DumpError {
    fn from(error: SourceError) -> Self {
        Self::Kernel(error.into())
    }
}

fn kept_as(kept: &Option<PathBuf>) -> String {
    kept.as_ref().map_or(String::new(), |path| {
        format!(
            "; what was written until then is in {} and can be read",
            path.display()
        )
    })
}
