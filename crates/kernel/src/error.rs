//! What can go wrong when memory is read or understood.

use std::io;
use std::path::PathBuf;

use bigiron_format::{FormatError, PageFrame, VirtAddr};

/// Memory cannot be had from its file.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file is damaged or of another kind.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The system does not let us open or use the file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The source does not hold this page frame.
    #[error("page frame {frame} is not in {}", path.display())]
    Absent {
        /// The file.
        path: PathBuf,
        /// The page frame.
        frame: PageFrame,
    },
    /// The page should be in the source but its data never got there.
    #[error("page frame {frame} was lost when {} was written", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// The page frame.
        frame: PageFrame,
    },
    /// The file is no dump, or of a kind that is not known.
    #[error("{}: {reason}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
}

impl SourceError {
    /// Whether only one page is missing and others may well be there.
    pub fn is_one_page(&self) -> bool {
        match self {
            // Headers were checked when the file was opened, so what is wrong
            // now is wrong with this page's descriptor or data.
            Self::Absent { .. } | Self::Lost { .. } | Self::Format { .. } => true,
            Self::Io { .. } | Self::Unsupported { .. } => false,
        }
    }
}

/// The memory does not make sense as a kernel's.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Reading it failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// There is no VMCOREINFO.
    #[error(
        "no VMCOREINFO in the notes and none in memory; give it with --vmcoreinfo \
         (`makedumpfile -g FILE -x VMLINUX` writes one)"
    )]
    NoVmcoreinfo,
    /// The VMCOREINFO that was given is another kernel's.
    #[error("the VMCOREINFO given is of Linux {given}, the dump of {dumped}")]
    OtherKernel {
        /// The release in the text.
        given: String,
        /// The release in the dump.
        dumped: String,
    },
    /// The kernel does not say something that is needed.
    #[error("VMCOREINFO has no {key}, which is needed to {purpose}")]
    MissingKey {
        /// The key.
        key: String,
        /// For what.
        purpose: &'static str,
    },
    /// A value in VMCOREINFO or in memory cannot be true.
    #[error("{what} is {found}, expected {expected}")]
    Implausible {
        /// What the value is.
        what: String,
        /// The value.
        found: String,
        /// What would be plausible.
        expected: &'static str,
    },
    /// The address is not mapped in the kernel's page tables.
    #[error("kernel address {address} ({what}) is not mapped")]
    NotMapped {
        /// What is there.
        what: &'static str,
        /// The address.
        address: VirtAddr,
    },
    /// A file with debug information is of no use.
    #[error("{}: {reason}", path.display())]
    Debuginfo {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The architecture is not known.
    #[error("a dump of {0}; this build knows {known}", known = crate::arch::names())]
    UnknownArchitecture(String),
}

impl KernelError {
    /// A key that VMCOREINFO lacks.
    pub fn missing(key: impl Into<String>, purpose: &'static str) -> Self {
        Self::MissingKey {
            key: key.into(),
            purpose,
        }
    }
}
