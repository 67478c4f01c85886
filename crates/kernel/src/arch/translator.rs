//! The interface of address translation.

use bigiron_format::{PhysAddr, VirtAddr};

use super::entries::Entries;
use super::table_tree::{TableTree, Target};
use crate::error::SourceError;

/// The physical location of a virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The physical address.
    pub physical: PhysAddr,
    /// Number of bytes from there on that are mapped contiguously.
    pub len: u64,
}

impl Leaf {
    /// The location of `address` in a mapping of `size` bytes, a power of two, at `base`.
    pub(super) fn within(address: u64, base: u64, size: u64) -> Self {
        let offset = address & (size - 1);
        Self {
            physical: PhysAddr((base & !(size - 1)).wrapping_add(offset)),
            len: size - offset,
        }
    }

    /// The location of `address` in a mapping whose ends are not known.
    pub(super) fn linear(address: u64, physical: u64) -> Self {
        /// No larger than the smallest mapping of any architecture.
        const UNIT: u64 = 1 << 20;
        Self {
            physical: PhysAddr(physical),
            len: UNIT - (address & (UNIT - 1)),
        }
    }
}

/// Translates kernel virtual addresses.
pub trait Translator: Send + Sync {
    /// Translates `address` by the page tables that `entries` reads; returns `None` if it is not
    /// mapped.
    fn walk(&self, entries: &mut Entries, address: VirtAddr) -> Result<Option<Leaf>, SourceError>;

    /// The tree of page tables, for a visit to all of them; `None` if there is more than one tree,
    /// or none.
    fn tree(&self) -> Option<TableTree> {
        None
    }

    /// The tree of page tables of a process, whose top table is at the physical address `root`;
    /// `None` if those of this architecture are not known.
    fn process_tree(&self, _root: u64) -> Option<TableTree> {
        None
    }

    /// Returns what `entry` of a table of `level`, where 0 is the lowest, leads to.
    fn target(&self, _level: u32, _entry: u64) -> Target {
        Target::Nothing
    }
}
