//! Types from the DWARF of a vmlinux with debug information.
//!
//! `.debug_info` takes hundreds of megabytes, so it is read unit by unit; an index of names and
//! the most recently used units are kept.

mod data;
mod entries;
mod facts;
mod source_file;
mod units;

use std::cell::RefCell;
use std::collections::HashMap;

use bigiron_format::bytes::Endian;
use gimli::{DwTag, RunTimeEndian, UnitHeader, UnitOffset, constants as dw};

use data::{Entry, Slice, Unit, Variable};
use facts::Facts;

pub use data::Dwarf;

use super::{Member, Named, Shape, Type, TypeId, TypeTable};
use crate::error::KernelError;
use crate::steps::Steps;
use crate::vmlinux::Vmlinux;

/// Entries that may be read in a vmlinux of any size, and for each byte of `.debug_info`. The
/// index takes two for each entry.
const FREE_STEPS: u64 = 4 << 20;
const STEPS_PER_BYTE: u64 = 4;

impl<'a> Dwarf<'a> {
    /// Builds the index of all names, which reads `.debug_info` once; returns `None` if the
    /// file has no DWARF.
    pub fn open(vmlinux: &'a Vmlinux) -> Result<Option<Self>, KernelError> {
        let (Some(info), Some(abbreviations)) = (
            vmlinux.section(".debug_info"),
            vmlinux.section(".debug_abbrev"),
        ) else {
            return Ok(None);
        };
        let strings = match vmlinux.section(".debug_str") {
            Some(section) => vmlinux.read(section)?,
            None => Vec::new(),
        };
        let mut dwarf = Self {
            vmlinux,
            info: info.clone(),
            abbreviations: vmlinux.read(abbreviations)?,
            strings,
            endian: match vmlinux.endian() {
                Endian::Little => RunTimeEndian::Little,
                Endian::Big => RunTimeEndian::Big,
            },
            starts: Vec::new(),
            names: HashMap::new(),
            enumerators: HashMap::new(),
            variables: HashMap::new(),
            units: RefCell::default(),
            steps: Steps::new(FREE_STEPS.saturating_add(info.size.saturating_mul(STEPS_PER_BYTE))),
        };
        let mut start = 0;
        while start < dwarf.info.size {
            let unit = dwarf.read_unit(start)?;
            dwarf.starts.push(start);
            dwarf.index(&unit)?;
            start += unit.bytes.len() as u64;
        }
        Ok(Some(dwarf))
    }

    /// Adds the names of one unit to the index.
    fn index(&mut self, unit: &Unit) -> Result<(), KernelError> {
        let header = self.header(unit.start, &unit.bytes)?;
        let mut entries = header.entries(&unit.abbreviations);
        // A declaration and its definition are two entries.
        let mut declared: HashMap<TypeId, (Box<str>, TypeId)> = HashMap::new();
        let mut more = self.first_child(unit, &mut entries)?;
        while more {
            if let Some(entry) = entries.current() {
                self.index_entry(unit, &header, entry, &mut declared)?;
            }
            more = self.next_sibling(unit, &header, &mut entries)?;
        }
        Ok(())
    }

    fn index_entry(
        &mut self,
        unit: &Unit,
        header: &UnitHeader<Slice>,
        entry: &Entry,
        declared: &mut HashMap<TypeId, (Box<str>, TypeId)>,
    ) -> Result<(), KernelError> {
        let named = match entry.tag() {
            dw::DW_TAG_variable => None,
            dw::DW_TAG_structure_type => Some(Named::Struct),
            dw::DW_TAG_union_type => Some(Named::Union),
            dw::DW_TAG_enumeration_type => Some(Named::Enumeration),
            dw::DW_TAG_typedef => Some(Named::Typedef),
            dw::DW_TAG_base_type => Some(Named::Base),
            _ => return Ok(()),
        };
        let facts = self.facts(unit, entry)?;
        let id = TypeId(unit.start + entry.offset().0 as u64);
        let Some(named) = named else {
            let from = facts.specification.and_then(|id| declared.get(&id));
            let name = facts.name.or_else(|| from.map(|(name, _)| name.clone()));
            let type_id = facts.type_id.or(from.map(|(_, type_id)| *type_id));
            if let (Some(name), Some(type_id)) = (name, type_id) {
                declared.insert(id, (name.clone(), type_id));
                let address = facts.address;
                let all = self.variables.entry(name).or_default();
                if address.is_some() || all.is_empty() {
                    all.push(Variable { type_id, address });
                }
            }
            return Ok(());
        };
        if named == Named::Enumeration {
            self.index_enumerators(unit, header, entry.offset())?;
        }
        if let Some(name) = facts.name.filter(|_| !facts.is_declaration) {
            let names = self.names.entry(named).or_default();
            names.entry(name).or_insert(id);
        }
        Ok(())
    }

    fn index_enumerators(
        &mut self,
        unit: &Unit,
        header: &UnitHeader<Slice>,
        offset: UnitOffset,
    ) -> Result<(), KernelError> {
        for (name, value) in self.values(unit, header, offset)? {
            self.enumerators.entry(name).or_insert(value);
        }
        Ok(())
    }

    fn values(
        &self,
        unit: &Unit,
        header: &UnitHeader<Slice>,
        offset: UnitOffset,
    ) -> Result<Vec<(Box<str>, i64)>, KernelError> {
        let mut values = Vec::new();
        self.children(unit, header, offset, &mut |tag, _, facts| {
            if let (dw::DW_TAG_enumerator, Some(name), Some(value)) = (tag, facts.name, facts.value)
            {
                values.push((name, value));
            }
        })?;
        Ok(values)
    }

    fn children(
        &self,
        unit: &Unit,
        header: &UnitHeader<Slice>,
        offset: UnitOffset,
        visit: &mut dyn FnMut(DwTag, TypeId, Facts),
    ) -> Result<(), KernelError> {
        let mut entries = header
            .entries_at_offset(&unit.abbreviations, offset)
            .map_err(|error| self.damaged(unit.start, error))?;
        let mut more = self.first_child(unit, &mut entries)?;
        while more {
            if let Some(entry) = entries.current() {
                let id = TypeId(unit.start + entry.offset().0 as u64);
                visit(entry.tag(), id, self.facts(unit, entry)?);
            }
            more = self.next_sibling(unit, header, &mut entries)?;
        }
        Ok(())
    }
}

impl TypeTable for Dwarf<'_> {
    fn get(&self, id: TypeId) -> Result<Type, KernelError> {
        if id == TypeId::VOID {
            return Ok(Type {
                name: None,
                shape: Shape::Void,
            });
        }
        self.with_entry(id, |unit, header, entry| {
            let facts = self.facts(unit, entry)?;
            let to = facts.type_id.unwrap_or(TypeId::VOID);
            let size = facts.size.unwrap_or(0);
            let shape = match entry.tag() {
                _ if facts.is_declaration => Shape::Declaration,
                dw::DW_TAG_base_type => Shape::Base(size),
                dw::DW_TAG_pointer_type => Shape::Pointer(to),
                dw::DW_TAG_structure_type => Shape::Struct(size),
                dw::DW_TAG_union_type => Shape::Union(size),
                dw::DW_TAG_enumeration_type => Shape::Enumeration(size),
                dw::DW_TAG_array_type => {
                    // All dimensions combined.
                    let mut count = 1_u64;
                    self.children(unit, header, entry.offset(), &mut |tag, _, facts| {
                        if tag == dw::DW_TAG_subrange_type {
                            let bound = facts.upper_bound.map(|bound| bound.wrapping_add(1));
                            count = count.saturating_mul(facts.count.or(bound).unwrap_or(0));
                        }
                    })?;
                    Shape::Array(to, count)
                }
                dw::DW_TAG_subroutine_type | dw::DW_TAG_subprogram => Shape::Function,
                _ => Shape::Alias(to),
            };
            Ok(Type {
                name: facts.name.map(String::from),
                shape,
            })
        })
    }

    fn members(&self, id: TypeId) -> Result<Vec<Member>, KernelError> {
        if id == TypeId::VOID {
            return Ok(Vec::new());
        }
        let mut members = Vec::new();
        self.with_entry(id, |unit, header, entry| {
            self.children(unit, header, entry.offset(), &mut |tag, _, facts| {
                if tag != dw::DW_TAG_member {
                    return;
                }
                let start = facts.offset.unwrap_or(0).saturating_mul(8);
                let bits = facts.bit_size.unwrap_or(0);
                // Counted from the other end of the storage unit.
                let old = facts.old_bit_offset.map(|offset| {
                    let storage = facts.size.unwrap_or(0).saturating_mul(8);
                    start.saturating_add(storage.saturating_sub(offset.saturating_add(bits)))
                });
                members.push(Member {
                    name: facts.name.map(String::from),
                    type_id: facts.type_id.unwrap_or(TypeId::VOID),
                    bit_offset: facts.data_bit_offset.or(old).unwrap_or(start),
                    bit_size: facts.bit_size,
                });
            })
        })?;
        Ok(members)
    }

    fn enumerators(&self, id: TypeId) -> Result<Vec<(String, i64)>, KernelError> {
        if id == TypeId::VOID {
            return Ok(Vec::new());
        }
        self.with_entry(id, |unit, header, entry| {
            let values = self.values(unit, header, entry.offset())?;
            Ok(values
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect())
        })
    }

    fn find(&self, named: Named, name: &str) -> Result<Option<TypeId>, KernelError> {
        let names = self.names.get(&named);
        Ok(names.and_then(|names| names.get(name)).copied())
    }

    fn enumerator(&self, name: &str) -> Result<Option<i64>, KernelError> {
        Ok(self.enumerators.get(name).copied())
    }

    fn variable(&self, name: &str, address: Option<u64>) -> Result<Option<TypeId>, KernelError> {
        let Some(all) = self.variables.get(name) else {
            return Ok(None);
        };
        let there = all.iter().find(|variable| {
            variable.address.is_some() && (address.is_none() || variable.address == address)
        });
        Ok(there
            .or_else(|| all.first())
            .map(|variable| variable.type_id))
    }
}

#[cfg(test)]
mod tests;
