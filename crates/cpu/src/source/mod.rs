//! Sources of scheduler domains.

pub mod bpf;
mod chains;
mod debugfs;
mod machine;
mod running;
mod schedstat;

use std::io;
use std::path::PathBuf;

use crate::domains::SchedDomain;
use crate::system::CpuError;
use crate::tree::DomainTree;

pub use bpf::{Bpf, BpfError};
pub use chains::Chains;
pub use debugfs::Debugfs;
pub use machine::Machine;
pub use running::{Running, running};
pub use schedstat::Schedstat;

/// Source of a kernel's scheduler domains.
pub trait DomainSource {
    /// Reads the current domains of all CPUs.
    ///
    /// # Errors
    /// The source does not exist, is not readable, or has contents that no kernel writes.
    fn read(&self) -> Result<DomainTree, SourceError>;

    /// Reads the current domains of one CPU, smallest first; empty if the CPU is not online.
    ///
    /// # Errors
    /// As for [`DomainSource::read`].
    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        Ok(self.read()?.cpus.remove(&cpu).unwrap_or_default())
    }

    /// Returns a mark that changes when the domains of a CPU are rebuilt; `None` if the source
    /// has no marks.
    ///
    /// # Errors
    /// As for [`DomainSource::read`].
    fn mark(&self, _cpu: u32) -> Result<Option<Mark>, SourceError> {
        Ok(None)
    }
}

/// Value that changes if and only if a kernel rebuilds the domains of a CPU. It has no other
/// meaning, and is not valid after a reboot. Rarely, two rebuilds restore an earlier value,
/// because the kernel may reuse the memory of the old domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(u32);

/// Error of reading domains.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or directory cannot be read.
    #[error("{}: {cause}; {next}", path.display())]
    File {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system call.
        cause: io::Error,
        /// Advice for the user.
        next: &'static str,
    },
    /// A line has an unexpected format.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// Reason, such as the expected format.
        reason: String,
    },
    /// BPF cannot read the running kernel.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The list of online CPUs cannot be read.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// Error of a source outside this crate, such as a dump.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}
