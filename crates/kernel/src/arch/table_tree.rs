//! A tree of page tables: a visit to all of them, each once, and the way to one address.

use std::collections::HashSet;
use std::mem::take;
use std::ops::Range;

use bigiron_format::bytes::Endian;
use bigiron_format::{PhysAddr, VirtAddr};

use crate::error::SourceError;
use crate::memory::PhysicalMemory;

/// A tree of page tables.
#[derive(Clone, Debug)]
pub struct TableTree {
    /// Physical address of the top table.
    root: u64,
    /// The first virtual address that is visited; the visit goes on to the last one that the top
    /// table has.
    start: u64,
    /// The entries of the top table that are visited.
    entries: Range<u64>,
    /// For each level, the lowest first, the first address bit of its index, and the number of bits.
    levels: Vec<(u32, u32)>,
    endian: Endian,
}

/// What an entry of a page table leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing is mapped.
    Nothing,
    /// A table of the next lower level.
    Table {
        /// Its physical address.
        at: u64,
        /// The entries that it has.
        entries: Range<u64>,
    },
    /// Memory.
    Memory {
        /// Its physical address; bits below the size mean nothing.
        at: u64,
        /// Its size in bytes, a power of two.
        size: u64,
    },
}

impl Target {
    /// A table with all entries of its level, at a physical address.
    pub fn table(at: u64) -> Self {
        let entries = 0..u64::MAX;
        Self::Table { at, entries }
    }

    /// Memory of `size` bytes at a physical address.
    pub fn memory(at: u64, size: u64) -> Self {
        Self::Memory { at, size }
    }
}

/// Learns of page tables and of what they map.
pub trait SeeTables {
    /// Takes the place of a table: its physical address, and its size in bytes.
    fn table(&mut self, at: PhysAddr, size: u64);

    /// Returns true if the visit is to go on in the lowest tables that map `addresses`, the first
    /// and the last one.
    fn wants(&self, addresses: (u64, u64)) -> bool;

    /// Takes a mapping: the virtual and the physical address, and the number of bytes.
    fn mapping(&mut self, virt: VirtAddr, at: PhysAddr, size: u64);
}

impl TableTree {
    /// Describes the tree with its top table at `root`, whose `levels` are given with the lowest
    /// first, as the first address bit of the index and the number of bits. The visit begins at
    /// the virtual address `start`.
    pub(super) fn new(
        root: u64,
        start: u64,
        levels: impl Iterator<Item = (u32, u32)>,
        endian: Endian,
    ) -> Self {
        Self {
            root,
            start,
            entries: 0..u64::MAX,
            levels: levels.collect(),
            endian,
        }
    }

    /// Returns the tree of a process, with its top table at `root`, of which the first `entries` are
    /// those of the process.
    pub(super) fn of_process(mut self, root: u64, entries: u64) -> Self {
        (self.root, self.start, self.entries) = (root, 0, 0..entries);
        self
    }

    /// Visits the tables from the top, of which `most` are read. What cannot be read is passed
    /// over. `target` decodes the entry of a table of a level.
    pub fn visit(
        &self,
        memory: &PhysicalMemory,
        target: &dyn Fn(u32, u64) -> Target,
        most: u64,
        see: &mut dyn SeeTables,
    ) {
        let mut visit = Visit {
            tree: self,
            memory,
            target,
            left: most,
            seen: HashSet::new(),
            bytes: vec![Vec::new(); self.levels.len()],
            see,
        };
        if let Some(top) = self.levels.len().checked_sub(1) {
            visit.table(top, self.root, &self.entries, self.start);
        }
    }

    /// Returns the physical address of `address`, and the number of bytes from there on that are
    /// mapped contiguously, by one entry of each level; `None` if it is not mapped. `target` decodes
    /// the entry of a table of a level.
    pub fn walk(
        &self,
        memory: &PhysicalMemory,
        target: &dyn Fn(u32, u64) -> Target,
        address: VirtAddr,
    ) -> Result<Option<(PhysAddr, u64)>, SourceError> {
        let (mut table, mut entries) = (self.root, self.entries.clone());
        for (level, (shift, bits)) in self.levels.iter().enumerate().rev() {
            let place = address.0 >> shift;
            let index = place & ((1 << bits) - 1);
            // The top table ends where addresses do.
            if !entries.contains(&index) || (level + 1 == self.levels.len() && index != place) {
                return Ok(None);
            }
            let mut bytes = [0; 8];
            memory.read(PhysAddr(table.wrapping_add(8 * index)), &mut bytes)?;
            let entry = match self.endian {
                Endian::Little => u64::from_le_bytes(bytes),
                Endian::Big => u64::from_be_bytes(bytes),
            };
            match target(level as u32, entry) {
                Target::Nothing => return Ok(None),
                Target::Memory { at, size } => {
                    let inside = address.0 & (size - 1);
                    let at = memory.of_machine(at & !(size - 1));
                    let span = size.min(1 << shift);
                    let len = span - (address.0 & (span - 1));
                    return Ok(at.map(|at| (PhysAddr(at.wrapping_add(inside)), len)));
                }
                Target::Table { at, entries: own } => {
                    let Some(at) = memory.of_machine(at) else {
                        return Ok(None);
                    };
                    (table, entries) = (at, own);
                }
            }
        }
        Ok(None)
    }
}

struct Visit<'a, 's> {
    tree: &'a TableTree,
    memory: &'a PhysicalMemory<'s>,
    target: &'a dyn Fn(u32, u64) -> Target,
    /// Number of tables that may still be read.
    left: u64,
    /// The tables that were read: KASAN maps its shadow by the same tables again and again, and
    /// those of a damaged dump may lead to each other.
    seen: HashSet<u64>,
    /// The bytes of the table that is visited, for each level: one allocation for all tables.
    bytes: Vec<Vec<u8>>,
    see: &'a mut dyn SeeTables,
}

impl Visit<'_, '_> {
    /// Visits the table at the physical address `at`, whose part from the virtual address `from`
    /// on matters.
    fn table(&mut self, level: usize, at: u64, entries: &Range<u64>, from: u64) {
        let Some((shift, bits)) = self.tree.levels.get(level).copied() else {
            return;
        };
        let count = 1_u64 << bits;
        let last = count.min(entries.end);
        let first = (from >> shift & (count - 1)).max(entries.start);
        let size = last.saturating_sub(first) * 8;
        let place = at.saturating_add(first * 8);
        self.see.table(PhysAddr(place), size);
        let span = (from, from | ((count << shift).wrapping_sub(1)));
        let is_wanted = level > 0 || self.see.wants(span);
        if size == 0 || !is_wanted || self.left == 0 || !self.seen.insert(at) {
            return;
        }
        self.left -= 1;
        let mut bytes = self.bytes.get_mut(level).map(take).unwrap_or_default();
        bytes.resize(size as usize, 0);
        if self.memory.read(PhysAddr(place), &mut bytes).is_ok() {
            self.entries(level, first, from, &bytes);
        }
        if let Some(kept) = self.bytes.get_mut(level) {
            *kept = bytes;
        }
    }

    /// Follows the entries of a table, whose bytes begin with the entry `first`.
    fn entries(&mut self, level: usize, first: u64, from: u64, bytes: &[u8]) {
        let Some((shift, bits)) = self.tree.levels.get(level).copied() else {
            return;
        };
        // The virtual address of the table's entry 0.
        let base = from & !(1_u64 << bits << shift).wrapping_sub(1);
        for (index, word) in (first..).zip(bytes.as_chunks::<8>().0) {
            let word = match self.tree.endian {
                Endian::Little => u64::from_le_bytes(*word),
                Endian::Big => u64::from_be_bytes(*word),
            };
            // Most entries of most tables are empty.
            if word == 0 {
                continue;
            }
            let virt = base.wrapping_add(index << shift);
            match (self.target)(level as u32, word) {
                Target::Nothing => {}
                Target::Memory { at, size } => {
                    let inside = virt & (size - 1);
                    if let Some(at) = self.memory.of_machine(at & !(size - 1)) {
                        let len = size.min(1 << shift);
                        let at = PhysAddr(at.wrapping_add(inside));
                        self.see.mapping(VirtAddr(virt), at, len);
                    }
                }
                Target::Table { at, entries } => {
                    if let (Some(at), Some(below)) =
                        (self.memory.of_machine(at), level.checked_sub(1))
                    {
                        self.table(below, at, &entries, virt);
                    }
                }
            }
        }
    }
}
