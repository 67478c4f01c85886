//! The domains of one CPU at a time.

use super::{DomainSource, Running, SourceError};
use crate::domains::SchedDomain;
use crate::list::CpuList;
use crate::system::System;
use crate::tree::DomainTree;

/// Source of the online CPUs, and of each CPU's domains.
pub trait Chains: Send + Sync {
    /// Returns the online CPUs.
    ///
    /// # Errors
    /// The list cannot be read.
    fn online(&self) -> Result<CpuList, SourceError>;

    /// Returns the domains of a CPU, smallest first, as of one moment.
    ///
    /// # Errors
    /// The domains cannot be read.
    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError>;
}

impl Chains for Running {
    fn online(&self) -> Result<CpuList, SourceError> {
        Ok(System::running().online()?)
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        DomainSource::chain(self, cpu)
    }
}

/// The domains stay as they were when the tree was read.
impl Chains for DomainTree {
    fn online(&self) -> Result<CpuList, SourceError> {
        Ok(self.cpus.keys().copied().collect())
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        Ok(self.cpus.get(&cpu).cloned().unwrap_or_default())
    }
}
