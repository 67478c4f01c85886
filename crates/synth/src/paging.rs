//! Page tables of any depth. The architectures define the entries; this module walks the tables
//! and allocates them.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::error::SynthError;
use crate::memory::{Frames, Memory};
use crate::order::ByteOrder;

/// One level of page tables: the bits of an address that index it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    /// Lowest bit.
    pub(crate) shift: u32,
    /// Number of bits.
    pub(crate) bits: u32,
}

/// The meaning of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nothing is mapped.
    Empty,
    /// Physical address of a table of the next lower level.
    Table(u64),
    /// A mapping.
    Leaf,
}

/// Properties of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// True for memory with code.
    pub(crate) exec: bool,
    /// True for one of several small leaves that are marked as one.
    pub(crate) contiguous: bool,
}

/// The entries of an architecture's page tables. A height is the number of a level counted from
/// the lowest one, which is 0.
pub(crate) trait Codec: Debug {
    /// Returns the levels, the top one first.
    fn levels(&self) -> Vec<Level>;

    /// Returns the byte order of entries.
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }

    /// Returns the entry for which nothing is mapped.
    fn empty(&self, _height: usize) -> u64 {
        0
    }

    /// Returns the bytes of a table, which may be more than its entries.
    fn table_bytes(&self, height: usize) -> u64 {
        let levels = self.levels();
        8 << levels[levels.len() - 1 - height].bits
    }

    /// Returns an entry that refers to a table at a physical address.
    fn table(&self, height: usize, next: u64) -> u64;

    /// Returns an entry that maps a physical address.
    fn leaf(&self, height: usize, paddr: u64, attributes: Attributes) -> u64;

    /// Returns the meaning of an entry.
    fn read(&self, height: usize, entry: u64) -> Entry;
}

/// The kernel's page tables.
#[derive(Debug)]
pub(crate) struct Tables {
    codec: Box<dyn Codec>,
    levels: Vec<Level>,
    /// Physical address of the top-level table.
    top: u64,
    page_size: u64,
    /// The unused rest of a page, by the size of the tables to which it was given.
    rests: BTreeMap<u64, (u64, u64)>,
}

/// A mapping: its virtual and physical address, and the size of its leaf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leafs {
    pub(crate) vaddr: u64,
    pub(crate) paddr: u64,
    /// log2 of the size.
    pub(crate) shift: u32,
    pub(crate) attributes: Attributes,
}

impl Tables {
    /// Clears the top-level table, which is in the image.
    pub(crate) fn new(
        codec: Box<dyn Codec>,
        top: u64,
        page_size: u64,
        memory: &mut Memory,
    ) -> Result<Self, SynthError> {
        let levels = codec.levels();
        let tables = Self {
            codec,
            levels,
            top,
            page_size,
            rests: BTreeMap::new(),
        };
        tables.clear(memory, tables.levels.len() - 1, top)?;
        Ok(tables)
    }

    fn clear(&self, memory: &mut Memory, height: usize, table: u64) -> Result<(), SynthError> {
        let empty = self.codec.empty(height);
        if empty == 0 {
            return Ok(());
        }
        let level = self.levels[self.levels.len() - 1 - height];
        let entry = self.codec.order().u64(empty);
        memory.write(table, &entry.repeat(1 << level.bits))
    }

    /// Allocates a table at a multiple of its size.
    fn allocate(
        &mut self,
        memory: &mut Memory,
        frames: &mut Frames,
        height: usize,
    ) -> Result<u64, SynthError> {
        let bytes = self.codec.table_bytes(height);
        let pages = bytes.div_ceil(self.page_size);
        let (at, end) = match self.rests.get(&bytes) {
            Some((at, end)) if at < end => (*at, *end),
            _ => {
                let pfn = frames.alloc(pages, pages)?;
                (pfn..pfn + pages).for_each(|pfn| memory.own(pfn));
                (pfn * self.page_size, (pfn + pages) * self.page_size)
            }
        };
        self.rests.insert(bytes, (at + bytes, end));
        self.clear(memory, height, at)?;
        Ok(at)
    }

    /// Maps one leaf. Its addresses are aligned to its size.
    pub(crate) fn map(
        &mut self,
        memory: &mut Memory,
        frames: &mut Frames,
        leaf: Leafs,
    ) -> Result<(), SynthError> {
        let order = self.codec.order();
        let mut table = self.top;
        for (depth, level) in self.levels.clone().into_iter().enumerate() {
            let height = self.levels.len() - 1 - depth;
            let index = leaf.vaddr >> level.shift & ((1 << level.bits) - 1);
            let slot = table + index * 8;
            if level.shift <= leaf.shift {
                let count = 1_u64 << (leaf.shift - level.shift);
                for number in 0..count {
                    let paddr = leaf.paddr + (number << level.shift);
                    let entry = self.codec.leaf(height, paddr, leaf.attributes);
                    memory.write(slot + number * 8, &order.u64(entry))?;
                }
                return Ok(());
            }
            let bytes = memory.read(slot, 8).unwrap_or_default();
            let entry = order.read_u64(bytes.try_into().unwrap_or_default());
            table = match self.codec.read(height, entry) {
                Entry::Table(next) => next,
                Entry::Empty => {
                    let next = self.allocate(memory, frames, height - 1)?;
                    let entry = self.codec.table(height, next);
                    memory.write(slot, &order.u64(entry))?;
                    next
                }
                Entry::Leaf => {
                    return Err(SynthError::layout(format!(
                        "address {:#x} is mapped twice",
                        leaf.vaddr
                    )));
                }
            };
        }
        Ok(())
    }
}
