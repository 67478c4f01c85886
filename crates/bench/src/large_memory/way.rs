//! The ways to create, lock and destroy memory that are measured.

use std::fmt;

use serde::Serialize;

/// What memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// A System V segment.
    Segment,
    /// Several of them, one behind the other.
    Striped(usize),
    /// A System V segment of hugetlb pages.
    Hugetlb,
    /// A file without a name.
    Memfd,
    /// Private memory.
    Anonymous,
}

impl Memory {
    /// Whether it lives as long as somebody refers to it, not only while it is mapped.
    pub fn is_shared(self) -> bool {
        self != Self::Anonymous
    }

    /// Whether it is a segment or several.
    pub fn is_segment(self) -> bool {
        matches!(self, Self::Segment | Self::Striped(_) | Self::Hugetlb)
    }
}

/// How its pages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Make {
    /// By writing a byte to each.
    Touch,
    /// By MADV_POPULATE_READ, in one call: the best that one thread can do with shared memory.
    OneCall,
    /// By as many helpers, at most.
    Helpers(usize),
    /// By as many helpers, in huge pages.
    HugeHelpers(usize),
    /// By whatever locks it.
    ByLock,
}

/// How it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lock {
    /// Not at all.
    No,
    /// By SHM_LOCK.
    Shm,
    /// By `mlock`.
    Mlock,
    /// By `mlock2(MLOCK_ONFAULT)` before, and `mlock` after its pages are made.
    OnFault,
}

/// How it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Destroy {
    /// By the plain calls, after `munlock` where it was locked by `mlock`.
    Plain,
    /// Its page tables by as many helpers, then by the plain calls; several segments at once.
    Helpers(usize),
    /// The same, with a reaper that has the last reference.
    Reaper(usize),
}

/// A setting of the kernel that a way needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Needs {
    /// None.
    Nothing,
    /// Shared memory in huge pages where programs ask for them.
    ShmemAdvise,
    /// Free hugetlb pages.
    Pool,
}

/// One way from nothing to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// What memory.
    pub memory: Memory,
    /// Whether it asks for huge pages (MADV_HUGEPAGE).
    pub advise_huge: bool,
    /// How its pages are made.
    pub make: Make,
    /// How it is locked.
    pub lock: Lock,
    /// How it is given back.
    pub destroy: Destroy,
    /// What the kernel must allow.
    pub needs: Needs,
}

impl Way {
    /// A segment by the plain calls.
    pub const PLAIN: Self = Self {
        memory: Memory::Segment,
        advise_huge: false,
        make: Make::Touch,
        lock: Lock::Shm,
        destroy: Destroy::Plain,
        needs: Needs::Nothing,
    };

    /// Whether it is to have huge pages, and so addresses for them.
    pub fn wants_huge(&self) -> bool {
        self.advise_huge || matches!(self.make, Make::HugeHelpers(_))
    }
}

impl fmt::Display for Way {
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
