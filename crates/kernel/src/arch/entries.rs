//! Reads page table entries.

use bigiron_format::PhysAddr;
use bigiron_format::bytes::Endian;

use crate::error::SourceError;
use crate::memory::PhysicalMemory;

/// Names of the levels of tables, the lowest first, by the number of levels.
const NAMES: [&[&str]; 6] = [
    &[],
    &["PTE"],
    &["PTE", "PGD"],
    &["PTE", "PMD", "PGD"],
    &["PTE", "PMD", "PUD", "PGD"],
    &["PTE", "PMD", "PUD", "P4D", "PGD"],
];

/// The kernel's name of level `level`, where 0 is the lowest, of `levels` tables.
pub(super) fn level_name(level: u32, levels: u32) -> &'static str {
    let names = NAMES.get(levels as usize);
    let name = names.and_then(|names| names.get(level as usize));
    name.copied().unwrap_or_default()
}

/// A page table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Name of the table's level, such as PGD, P4D, PUD, PMD and PTE.
    pub level: &'static str,
    /// Physical address of the entry.
    pub address: PhysAddr,
    /// Value of the entry.
    pub value: u64,
}

/// Reads the entries of a walk.
pub struct Entries<'m, 's, 'v> {
    memory: &'m PhysicalMemory<'s>,
    visit: Option<&'v mut dyn FnMut(TableEntry)>,
}

impl<'m, 's, 'v> Entries<'m, 's, 'v> {
    /// Reads entries from `memory`.
    pub fn new(memory: &'m PhysicalMemory<'s>) -> Self {
        let visit = None;
        Self { memory, visit }
    }

    /// Reads entries from `memory` and passes each to `visit`.
    pub fn seen_by(memory: &'m PhysicalMemory<'s>, visit: &'v mut dyn FnMut(TableEntry)) -> Self {
        let visit = Some(visit);
        Self { memory, visit }
    }

    /// Returns the physical address for one in an entry, if the guest has it.
    pub(super) fn of_machine(&self, address: u64) -> Option<u64> {
        self.memory.of_machine(address)
    }

    /// Reads the 8 bytes of an entry of the level named `level`.
    #[inline]
    pub(super) fn read(
        &mut self,
        level: &'static str,
        address: u64,
        endian: Endian,
    ) -> Result<u64, SourceError> {
        let mut bytes = [0; 8];
        let address = PhysAddr(address);
        self.memory.read(address, &mut bytes)?;
        let value = match endian {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        };
        if let Some(visit) = &mut self.visit {
            visit(TableEntry {
                level,
                address,
                value,
            });
        }
        Ok(value)
    }
}
