//! Compilation units of `.debug_info`, read one by one.

use std::rc::Rc;

use gimli::{DebugAbbrev, DebugInfo, EndianSlice, Reader, UnitHeader, UnitOffset, constants as dw};

use super::data::{Dwarf, Entry, Slice, Unit};
use crate::error::KernelError;
use crate::types::TypeId;

/// Number of units kept besides the current one; a unit takes 100 KiB.
const KEPT_UNITS: usize = 8;
/// Maximum size of a compilation unit; the largest of a kernel have 1 MiB.
const MAX_UNIT: u64 = 256 << 20;
/// Bytes of a unit that take one step to read: an entry takes as long as they do.
const BYTES_PER_STEP: u64 = 16;
/// Maximum number of attributes of an entry; a kernel's have about 15. Some take no byte of the
/// entry, so that its size does not bound them.
const MAX_ATTRIBUTES: usize = 64;

impl Dwarf<'_> {
    pub(super) fn read_unit(&self, start: u64) -> Result<Unit, KernelError> {
        let mut head = [0; 12];
        let left = self.info.size.saturating_sub(start);
        let head_len = left.min(12) as usize;
        let at = self.info.offset.saturating_add(start);
        self.vmlinux
            .fill("a unit of DWARF", at, &mut head[..head_len])?;
        let endian = self.vmlinux.endian();
        let len = match endian.u32(&head, 0).unwrap_or(0) {
            u32::MAX => endian.u64(&head, 4).unwrap_or(0).saturating_add(12),
            len => u64::from(len) + 4,
        };
        if !(8..=left.min(MAX_UNIT)).contains(&len) {
            return Err(self.damaged(start, format!("a unit of {len} bytes, {left} are left")));
        }
        self.step(start, len / BYTES_PER_STEP)?;
        let bytes = self.vmlinux.bytes("a unit of DWARF", at, len)?;
        let header = self.header(start, &bytes)?;
        self.check_abbreviations(start, header.debug_abbrev_offset().0)?;
        let abbreviations = header
            .abbreviations(&DebugAbbrev::new(&self.abbreviations, self.endian))
            .map_err(|error| self.damaged(start, error))?;
        Ok(Unit {
            start,
            bytes,
            abbreviations,
        })
    }

    /// Checks the abbreviations at an offset of `.debug_abbrev`, which the unit at `start` uses.
    /// Units may share them, so each unit takes steps for all of them.
    fn check_abbreviations(&self, start: u64, offset: usize) -> Result<(), KernelError> {
        let error = |error: gimli::Error| self.damaged(start, error);
        let bytes = self.abbreviations.get(offset..).unwrap_or_default();
        let mut bytes = EndianSlice::new(bytes, self.endian);
        while bytes.read_uleb128().map_err(error)? != 0 {
            self.step(start, 1)?;
            bytes.read_uleb128().map_err(error)?;
            bytes.read_u8().map_err(error)?;
            let mut attributes = 0;
            loop {
                let name = bytes.read_uleb128().map_err(error)?;
                let form = bytes.read_uleb128().map_err(error)?;
                if form == u64::from(dw::DW_FORM_implicit_const.0) {
                    bytes.read_sleb128().map_err(error)?;
                }
                if (name, form) == (0, 0) {
                    break;
                }
                attributes += 1;
                if attributes > MAX_ATTRIBUTES {
                    let text = format!("entries with more than {MAX_ATTRIBUTES} attributes");
                    return Err(self.damaged(start, text));
                }
            }
        }
        Ok(())
    }

    pub(super) fn header<'u>(
        &self,
        start: u64,
        bytes: &'u [u8],
    ) -> Result<UnitHeader<Slice<'u>>, KernelError> {
        match DebugInfo::new(bytes, self.endian).units().next() {
            Ok(Some(header)) => Ok(header),
            Ok(None) => Err(self.damaged(start, "no unit")),
            Err(error) => Err(self.damaged(start, error)),
        }
    }

    /// Returns the unit that contains the entry.
    pub(super) fn unit_of(&self, id: TypeId) -> Result<Rc<Unit>, KernelError> {
        let index = self.starts.partition_point(|start| *start <= id.0);
        let start = index
            .checked_sub(1)
            .and_then(|index| self.starts.get(index));
        let start = *start.ok_or_else(|| self.damaged(id.0, "no unit"))?;
        let mut units = self.units.borrow_mut();
        if let Some(index) = units.iter().position(|(found, _)| *found == start) {
            let unit = units.remove(index);
            units.insert(0, unit);
        } else {
            let unit = Rc::new(self.read_unit(start)?);
            units.truncate(KEPT_UNITS);
            units.insert(0, (start, unit));
        }
        Ok(Rc::clone(&units[0].1))
    }

    /// Calls `work` with the entry of `id`.
    pub(super) fn with_entry<T>(
        &self,
        id: TypeId,
        work: impl FnOnce(&Unit, &UnitHeader<Slice>, &Entry) -> Result<T, KernelError>,
    ) -> Result<T, KernelError> {
        let unit = self.unit_of(id)?;
        let header = self.header(unit.start, &unit.bytes)?;
        let offset = UnitOffset((id.0 - unit.start) as usize);
        let entry = header
            .entry(&unit.abbreviations, offset)
            .map_err(|error| self.damaged(id.0, error))?;
        work(&unit, &header, &entry)
    }
}
