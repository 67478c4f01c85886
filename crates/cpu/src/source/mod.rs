//! Where scheduling domains can be read.

mod debugfs;
mod machine;
mod schedstat;

use std::io;
use std::path::PathBuf;

use crate::tree::DomainTree;

pub use debugfs::Debugfs;
pub use machine::Machine;
pub use schedstat::Schedstat;

/// A place that tells the scheduling domains of a kernel.
pub trait DomainSource {
    /// The domains of all CPUs, as they are now.
    ///
    /// # Errors
    /// The place is not there or may not be read, or holds what no kernel writes.
    fn read(&self) -> Result<DomainTree, SourceError>;
}

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
}
