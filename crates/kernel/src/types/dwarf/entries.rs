//! Walks the entries of a unit.

use gimli::{AttributeValue, EntriesCursor, UnitHeader, constants as dw};

use super::data::{Dwarf, Entry, Slice, Unit};
use crate::error::KernelError;

impl Dwarf<'_> {
    /// Moves to the next entry, which may be the end of a list; returns false at the end of the
    /// unit.
    fn next_entry(
        &self,
        unit: &Unit,
        entries: &mut EntriesCursor<Slice>,
    ) -> Result<bool, KernelError> {
        self.step(unit.start, 1)?;
        let next = entries.next_entry();
        Ok(next.map_err(|e| self.damaged(unit.start, e))?.is_some())
    }

    /// Moves to the first child of the next entry; returns false if there is none.
    pub(super) fn first_child(
        &self,
        unit: &Unit,
        entries: &mut EntriesCursor<Slice>,
    ) -> Result<bool, KernelError> {
        let has_children = |entry: Option<&Entry>| entry.is_some_and(Entry::has_children);
        Ok(self.next_entry(unit, entries)?
            && has_children(entries.current())
            && self.next_entry(unit, entries)?
            && entries.current().is_some())
    }

    /// Moves to the next sibling; returns false if there is none. Unlike gimli's function of this
    /// name, takes a step for each entry that it passes.
    pub(super) fn next_sibling<'u>(
        &self,
        unit: &'u Unit,
        header: &'u UnitHeader<Slice<'u>>,
        entries: &mut EntriesCursor<'u, 'u, Slice<'u>>,
    ) -> Result<bool, KernelError> {
        let mut depth = 0_u64;
        loop {
            if let Some(entry) = entries.current().filter(|entry| entry.has_children()) {
                let there = sibling(entry)
                    .and_then(|offset| header.entries_at_offset(&unit.abbreviations, offset).ok());
                match there {
                    Some(there) => *entries = there,
                    None => depth += 1,
                }
            }
            if !self.next_entry(unit, entries)? {
                return Ok(false);
            }
            match (depth, entries.current().is_some()) {
                (0, is_entry) => return Ok(is_entry),
                (_, true) => {}
                (_, false) => depth -= 1,
            }
        }
    }
}

/// Returns the offset of the next sibling, if the entry has it and it lies behind.
fn sibling(entry: &Entry) -> Option<gimli::UnitOffset> {
    match entry.attr_value(dw::DW_AT_sibling) {
        Ok(Some(AttributeValue::UnitRef(offset))) if offset > entry.offset() => Some(offset),
        _ => None,
    }
}
