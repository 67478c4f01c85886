//! Errors of dumps.

use std::io;
use std::path::{Path, PathBuf};

use bigiron_format::PageFrame;
use bigiron_format::codec::CodecError;
use bigiron_format::device::DumpId;
use bigiron_kernel::{DumpLevel, KernelError, SourceError};

/// Reason why a dump was not made, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The source cannot be read, or the kernel in it is not understood.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Pages cannot be classified.
    #[error("cannot filter at dump level {level}: {cause}; with -d 1 all pages are dumped")]
    Filter {
        /// The dump level.
        level: u8,
        /// The reason.
        cause: KernelError,
    },
    /// The kernel is not found, and the dump level needs its struct pages.
    #[error(
        "{cause}{place}; dump level {level} needs it: with -d 1 all pages are dumped without \
         VMCOREINFO{}",
        or_given(cause)
    )]
    NoKernel {
        /// The dump level.
        level: u8,
        /// Where VMCOREINFO is, in parentheses; empty if unknown.
        place: String,
        /// The reason.
        cause: Box<KernelError>,
    },
    /// The codec failed.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The output file cannot be created.
    #[error("{}: cannot {action}: {cause}{hint}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        cause: io::Error,
        /// A separator and advice.
        hint: &'static str,
    },
    /// Writing failed halfway.
    #[error("{}: cannot write: {cause}{}", path.display(), kept_as(kept))]
    Write {
        /// Final name of the output.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
        /// The file that holds what was written until then.
        kept: Option<PathBuf>,
    },
    /// The dump was stopped, for example by a signal.
    #[error("interrupted{}", kept_as(kept))]
    Interrupted {
        /// The file that holds what was written until then.
        kept: Option<PathBuf>,
    },
    /// A raw dump device was refused.
    #[error("{}: {reason}", path.display())]
    Device {
        /// The device.
        path: PathBuf,
        /// The reason and advice.
        reason: String,
    },
    /// A raw dump device holds a dump that was not saved yet.
    #[error(
        "{}: holds a dump of {host} that was never saved (id {id}): `bigiron save` saves it, \
         --keep newest replaces it",
        path.display()
    )]
    Unsaved {
        /// The device.
        path: PathBuf,
        /// Name of the dumped machine.
        host: String,
        /// The dump on the device.
        id: DumpId,
    },
    /// The dump does not fit the format or the output.
    #[error("{0}")]
    Layout(String),
    /// Two dumps have different content.
    #[error("page frame {frame}: {reason}")]
    Differs {
        /// The first page frame that differs.
        frame: PageFrame,
        /// The difference.
        reason: String,
    },
}

impl DumpError {
    /// Converts an error of the filter at `level`.
    pub(crate) fn filter(level: DumpLevel) -> impl Fn(KernelError) -> Self {
        move |cause| Self::Filter {
            level: level.number(),
            cause,
        }
    }

    /// Converts an I/O error of writing `path`; nothing of it is kept.
    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |cause| Self::Write {
            path: path.to_owned(),
            cause,
            kept: None,
        }
    }

    /// Converts an I/O error of `action` on `path`; `hint` is a separator and advice.
    pub(crate) fn output(
        path: &Path,
        action: &'static str,
        hint: &'static str,
    ) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Output {
            path: path.to_owned(),
            action,
            cause,
            hint,
        }
    }

    /// True if the output had too little room (full disk, quota, size limit), so that a smaller
    /// dump may still fit.
    pub fn is_output_full(&self) -> bool {
        let Self::Write { cause, .. } = self else {
            return false;
        };
        matches!(
            cause.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded
        )
    }
}

impl DumpError {
    /// True if another output may take the dump: this one is missing, refused, full or broken.
    pub fn is_of_output(&self) -> bool {
        matches!(
            self,
            Self::Output { .. } | Self::Write { .. } | Self::Device { .. } | Self::Unsaved { .. }
        )
    }
}

impl From<SourceError> for DumpError {
    fn from(error: SourceError) -> Self {
        Self::Kernel(error.into())
    }
}

/// Names the option that gives VMCOREINFO, unless `cause` does.
fn or_given(cause: &KernelError) -> &'static str {
    match cause {
        KernelError::NoVmcoreinfo => "",
        _ => ", or give VMCOREINFO with --vmcoreinfo FILE",
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
