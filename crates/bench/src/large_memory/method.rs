//! The methods to create, lock and destroy memory.

use std::fmt;

use serde::Serialize;

/// Kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// A System V segment.
    Segment,
    /// Several consecutive segments.
    Striped(usize),
    /// A System V segment of hugetlb pages.
    Hugetlb,
    /// A memfd.
    Memfd,
    /// Private anonymous memory.
    Anonymous,
}

impl Memory {
    /// True if the memory lives as long as it is referenced, not only while it is mapped.
    pub fn is_shared(self) -> bool {
        self != Self::Anonymous
    }

    /// True if the memory consists of one or more segments.
    pub fn is_segment(self) -> bool {
        matches!(self, Self::Segment | Self::Striped(_) | Self::Hugetlb)
    }
}

/// Method to populate the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Make {
    /// A write of one byte to each page.
    Touch,
    /// MADV_POPULATE_READ in one call: the fastest method for shared memory in one thread.
    OneCall,
    /// Up to this number of helpers.
    Helpers(usize),
    /// Up to this number of helpers, with huge pages.
    HugeHelpers(usize),
    /// The call that locks the memory.
    ByLock,
}

/// Method to lock the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lock {
    /// Not locked.
    No,
    /// SHM_LOCK.
    Shm,
    /// `mlock`.
    Mlock,
    /// `mlock2(MLOCK_ONFAULT)` before the population, and `mlock` after it.
    OnFault,
}

/// Method to release the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Destroy {
    /// The plain calls, after `munlock` if the memory was locked by `mlock`.
    Plain,
    /// The page tables by up to this number of helpers, then the plain calls; several segments
    /// concurrently.
    Helpers(usize),
    /// The same, with a reaper that holds the last reference.
    Reaper(usize),
}

/// A kernel setting required by a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Needs {
    /// None.
    Nothing,
    /// Huge pages for shared memory on madvise.
    ShmemAdvise,
    /// Free hugetlb pages.
    Pool,
}

/// A method to create, lock and destroy memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Kind of memory.
    pub memory: Memory,
    /// True to request huge pages by MADV_HUGEPAGE.
    pub advise_huge: bool,
    /// Method to populate the memory.
    pub make: Make,
    /// Method to lock the memory.
    pub lock: Lock,
    /// Method to release the memory.
    pub destroy: Destroy,
    /// Required kernel setting.
    pub needs: Needs,
}

impl Method {
    /// A segment with the plain calls.
    pub const PLAIN: Self = Self {
        memory: Memory::Segment,
        advise_huge: false,
        make: Make::Touch,
        lock: Lock::Shm,
        destroy: Destroy::Plain,
        needs: Needs::Nothing,
    };

    /// True if the memory should have huge pages, and thus needs aligned addresses.
    pub fn wants_huge(&self) -> bool {
        self.advise_huge || matches!(self.make, Make::HugeHelpers(_))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            memory,
            make,
            lock,
            destroy,
            ..
        } = self;
        write!(
            formatter,
            "memory {memory:?}, made by {make:?}, locked by {lock:?}, destroyed by {destroy:?}"
        )
    }
}
