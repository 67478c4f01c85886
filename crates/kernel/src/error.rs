//! Errors of reading and interpreting memory.

use std::io;
use std::path::PathBuf;

use bigiron_format::{FormatError, PageFrame, VirtAddr};

/// Memory cannot be read from its file.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file is damaged or of another format.
    #[error("{}: {cause}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format error.
        cause: FormatError,
    },
    /// The file cannot be opened or read.
    #[error("{}: cannot {action}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The I/O error.
        cause: io::Error,
    },
    /// The source does not contain this page frame.
    #[error("page frame {frame} is not in {}", path.display())]
    Absent {
        /// The file.
        path: PathBuf,
        /// The page frame.
        frame: PageFrame,
    },
    /// The page should be in the source, but its data was never written.
    #[error("page frame {frame} was lost when {} was written", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// The page frame.
        frame: PageFrame,
    },
    /// The contents of the page frame cannot be told.
    #[error("machine frame {frame}: {reason}")]
    Unknown {
        /// The page frame.
        frame: PageFrame,
        /// The reason.
        reason: &'static str,
    },
    /// The file is not a dump, or of an unknown format.
    #[error("{}: {reason}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
}

impl SourceError {
    /// Returns true if only this page is missing and others may be readable.
    pub fn is_one_page(&self) -> bool {
        match self {
            // Headers were checked when the file was opened, so this is damage of the page's
            // descriptor or data.
            Self::Absent { .. }
            | Self::Lost { .. }
            | Self::Format { .. }
            | Self::Unknown { .. } => true,
            Self::Io { .. } | Self::Unsupported { .. } => false,
        }
    }

    /// Returns true if the disk did not return the bytes, which another attempt may.
    pub fn is_unreadable(&self) -> bool {
        matches!(
            self,
            Self::Io { .. }
                | Self::Format {
                    cause: FormatError::Io { .. },
                    ..
                }
        )
    }
}

/// The memory cannot be interpreted as a kernel's.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Reading failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No VMCOREINFO was found.
    #[error(
        "no VMCOREINFO in the notes and none in memory; give it with --vmcoreinfo \
         (`makedumpfile -g FILE -x VMLINUX` writes one)"
    )]
    NoVmcoreinfo,
    /// The given VMCOREINFO belongs to another kernel.
    #[error("the VMCOREINFO given is of Linux {given}, the dump of {dumped}")]
    OtherKernel {
        /// The release in the given text.
        given: String,
        /// The release in the dump.
        dumped: String,
    },
    /// VMCOREINFO lacks a required key.
    #[error("VMCOREINFO has no {key}, which is needed to {purpose}")]
    MissingKey {
        /// The key.
        key: String,
        /// What the key is needed for.
        purpose: &'static str,
    },
    /// A value in VMCOREINFO or in memory is impossible.
    #[error("{what} is {found}, expected {expected}")]
    Implausible {
        /// Name of the value.
        what: String,
        /// The value.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
    /// The address is not mapped by the kernel's page tables.
    #[error("kernel address {address} ({what}) is not mapped")]
    NotMapped {
        /// The data expected there.
        what: &'static str,
        /// The address.
        address: VirtAddr,
    },
    /// A file with debug information cannot be used.
    #[error("{}: {reason}", path.display())]
    Debuginfo {
        /// The file.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The dump is of a Xen host, and something that says what its page frames are is missing.
    #[error("a dump of a Xen host: {reason}")]
    XenHost {
        /// What is missing or damaged.
        reason: String,
    },
    /// The dump is not of a Xen host.
    #[error(
        "not a dump of a Xen host: no note about the hypervisor (Xen, type 0x1000001), so that \
         its memory has no owners to choose"
    )]
    NoXenHost,
    /// The kernel in dom0 of a Xen host is not found.
    #[error(
        "page cache and user memory (2, 4 and 8) of a Xen host are known to dom0's kernel, which \
         is not found: {cause}; -d 17 excludes what the hypervisor knows"
    )]
    NoDom0 {
        /// The reason.
        cause: String,
    },
    /// The dump is of a Xen host, whose memory belongs to several kernels.
    #[error(
        "a dump of a Xen host (Xen {version}), whose memory belongs to the hypervisor and several \
         kernels; `bigiron info` shows them, `--domain 0` reads dom0"
    )]
    SeveralKernels {
        /// Version of the hypervisor.
        version: String,
    },
    /// The architecture is not supported.
    #[error("a dump of {name}; this build knows {known}")]
    UnknownArchitecture {
        /// The architecture of the dump.
        name: String,
        /// Names of the supported architectures.
        known: String,
    },
}

impl KernelError {
    /// Returns true if a source can be dumped although this error prevents that its kernel is
    /// found. A VMCOREINFO of another kernel is the user's mistake, who must learn of it.
    pub fn leaves_pages_readable(&self) -> bool {
        !matches!(
            self,
            Self::OtherKernel { .. } | Self::UnknownArchitecture { .. } | Self::NoXenHost
        )
    }

    /// The error for a missing VMCOREINFO key.
    pub fn missing(key: impl Into<String>, purpose: &'static str) -> Self {
        Self::MissingKey {
            key: key.into(),
            purpose,
        }
    }
}
