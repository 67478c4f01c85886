//! A domain under construction.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::flags::Flags;

/// Domain under construction.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    /// Index of the level.
    pub level: usize,
    /// Number of domains below it when it was built: the kernel's `level`.
    pub number: u32,
    pub flags: Flags,
    pub span: Arc<FixedBitSet>,
    /// Number of online CPUs of its level, including isolated ones.
    pub weight: u64,
    pub imbalance_pct: u32,
    pub cache_nice_tries: u32,
    pub group: Option<Group>,
}

/// A CPU's own group in a domain: the first in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) span: Arc<FixedBitSet>,
    pub(super) flags: Flags,
    /// True if the ring has other groups.
    pub(super) has_siblings: bool,
}
