//! Attributes of a DWARF entry.

use gimli::{AttributeValue, Reader, constants as dw};

use super::data::{Dwarf, Entry, Slice, Unit};
use crate::error::KernelError;
use crate::types::TypeId;
use crate::vmlinux::{MAX_NAME, name_at};

/// Memory that an entry may take in an index or a list, in bytes.
const ENTRY_MEMORY: u64 = 1024;

/// The attributes of an entry that are used here.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) name: Option<Box<str>>,
    pub(super) type_id: Option<TypeId>,
    pub(super) size: Option<u64>,
    pub(super) address: Option<u64>,
    pub(super) offset: Option<u64>,
    pub(super) bit_size: Option<u64>,
    pub(super) data_bit_offset: Option<u64>,
    /// Counted from the most significant bit of the storage, as in DWARF 2 and 3.
    pub(super) old_bit_offset: Option<u64>,
    pub(super) upper_bound: Option<u64>,
    pub(super) count: Option<u64>,
    pub(super) value: Option<i64>,
    pub(super) specification: Option<TypeId>,
    pub(super) is_declaration: bool,
}

impl Dwarf<'_> {
    pub(super) fn facts(&self, unit: &Unit, entry: &Entry) -> Result<Facts, KernelError> {
        self.step(unit.start, 1)?;
        let place = self.info.offset.saturating_add(unit.start);
        self.vmlinux
            .check_memory("an entry of DWARF", place, ENTRY_MEMORY)?;
        let mut facts = Facts::default();
        let mut attributes = entry.attrs();
        loop {
            let attribute = match attributes.next() {
                Ok(Some(attribute)) => attribute,
                Ok(None) => return Ok(facts),
                Err(error) => return Err(self.damaged(unit.start, error)),
            };
            let reference = || match attribute.value() {
                AttributeValue::UnitRef(offset) => {
                    Some(TypeId(unit.start.wrapping_add(offset.0 as u64)))
                }
                AttributeValue::DebugInfoRef(offset) => Some(TypeId(offset.0 as u64)),
                _ => None,
            };
            match attribute.name() {
                dw::DW_AT_name => facts.name = self.text(attribute.value()),
                dw::DW_AT_type => facts.type_id = reference(),
                dw::DW_AT_specification => facts.specification = reference(),
                dw::DW_AT_byte_size => facts.size = attribute.udata_value(),
                dw::DW_AT_bit_size => facts.bit_size = attribute.udata_value(),
                dw::DW_AT_data_bit_offset => facts.data_bit_offset = attribute.udata_value(),
                dw::DW_AT_bit_offset => facts.old_bit_offset = attribute.udata_value(),
                dw::DW_AT_upper_bound => facts.upper_bound = attribute.udata_value(),
                dw::DW_AT_count => facts.count = attribute.udata_value(),
                dw::DW_AT_const_value => {
                    let value = attribute.sdata_value();
                    let unsigned = || attribute.udata_value().map(u64::cast_signed);
                    facts.value = value.or_else(unsigned);
                }
                dw::DW_AT_declaration => facts.is_declaration = true,
                dw::DW_AT_data_member_location => {
                    let operand = || self.operand(attribute.value(), dw::DW_OP_plus_uconst);
                    facts.offset = attribute.udata_value().or_else(operand);
                }
                dw::DW_AT_location => {
                    facts.address = self.operand(attribute.value(), dw::DW_OP_addr);
                }
                _ => {}
            }
        }
    }

    /// Returns the operand of an expression that consists of this operation alone.
    fn operand(&self, value: AttributeValue<Slice>, wanted: gimli::DwOp) -> Option<u64> {
        let AttributeValue::Exprloc(expression) = value else {
            return None;
        };
        let mut bytes = expression.0;
        if bytes.read_u8().ok()? != wanted.0 {
            return None;
        }
        let operand = match wanted {
            dw::DW_OP_addr => bytes.read_u64(),
            _ => bytes.read_uleb128(),
        };
        operand.ok().filter(|_| bytes.is_empty())
    }

    pub(super) fn text(&self, value: AttributeValue<Slice>) -> Option<Box<str>> {
        let text = match value {
            AttributeValue::String(text) => text.slice(),
            AttributeValue::DebugStrRef(offset) => name_at(&self.strings, offset.0)?,
            _ => return None,
        };
        let text = std::str::from_utf8(text).ok()?;
        (text.len() < MAX_NAME).then(|| text.into())
    }
}
