//! Where scheduler domains can be read.

pub mod bpf;
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
pub use debugfs::Debugfs;
pub use machine::Machine;
pub use running::{Running, running};
pub use schedstat::Schedstat;

/// A place that tells the scheduler domains of a kernel.
pub trait DomainSource {
    /// The domains of all CPUs, as they are now.
    ///
    /// # Errors
    /// The place is not there or may not be read, or holds what no kernel writes.
    fn read(&self) -> Result<DomainTree, SourceError>;

    /// The domains of one CPU, as they are now, the smallest first; none of a CPU that is not online.
    ///
    /// # Errors
    /// As of [`DomainSource::read`].
    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        Ok(self.read()?.cpus.remove(&cpu).unwrap_or_default())
    }

    /// What changes when the domains of a CPU are built anew; `None` of a place that does not tell.
    ///
    /// # Errors
    /// As of [`DomainSource::read`].
    fn mark(&self, _cpu: u32) -> Result<Option<Mark>, SourceError> {
        Ok(None)
    }
}

/// Changes when a kernel builds the domains of a CPU anew, and not otherwise. It means nothing else, and
/// nothing after a boot. After two rebuilds it may rarely be what it was before them: the kernel
/// may have given the new domains the place of the old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(u32);

/// Why domains cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or directory cannot be read.
    #[error("{}: {source}; {next}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What can be done.
        next: &'static str,
    },
    /// A line is none of the kernel's.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What was expected.
        reason: String,
    },
    /// The running kernel cannot be asked by BPF.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The CPUs that are online are not told.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// A place outside of this crate, such as a dump, has its own reasons.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}
