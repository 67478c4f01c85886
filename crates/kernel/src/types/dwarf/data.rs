//! The index of a vmlinux's DWARF, and the units that it keeps.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{Abbreviations, EndianSlice, RunTimeEndian};

use crate::error::KernelError;
use crate::steps::Steps;
use crate::types::{Named, TypeId};
use crate::vmlinux::{ElfSection, Vmlinux};

pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
pub(super) type Entry<'a, 'u> = gimli::DebuggingInformationEntry<'a, 'u, Slice<'u>>;

/// The types in the DWARF of a vmlinux.
pub struct Dwarf<'a> {
    pub(super) vmlinux: &'a Vmlinux,
    pub(super) info: ElfSection,
    pub(super) abbreviations: Vec<u8>,
    pub(super) strings: Vec<u8>,
    pub(super) endian: RunTimeEndian,
    /// Offset of each unit in `.debug_info`.
    pub(super) starts: Vec<u64>,
    pub(super) names: HashMap<Named, HashMap<Box<str>, TypeId>>,
    pub(super) enumerators: HashMap<Box<str>, i64>,
    pub(super) variables: HashMap<Box<str>, Vec<Variable>>,
    pub(super) units: RefCell<Vec<(u64, Rc<Unit>)>>,
    pub(super) steps: Steps,
}

#[derive(Clone, Copy)]
pub(super) struct Variable {
    pub(super) type_id: TypeId,
    /// Address; `None` for a declaration.
    pub(super) address: Option<u64>,
}

impl Dwarf<'_> {
    /// The error for damage at an offset of `.debug_info`.
    pub(super) fn damaged(&self, offset: u64, error: impl std::fmt::Display) -> KernelError {
        self.vmlinux
            .unusable(&format!(".debug_info at {offset:#x}: {error}"))
    }

    /// Takes steps for work at an offset of `.debug_info`.
    pub(super) fn step(&self, offset: u64, count: u64) -> Result<(), KernelError> {
        match self.steps.take(count) {
            true => Ok(()),
            false => Err(self.damaged(
                offset,
                "its types refer to each other so often that they take more steps than its size \
                 explains; give the vmlinux as it was built",
            )),
        }
    }
}

/// The bytes of one unit.
pub(super) struct Unit {
    /// Offset in `.debug_info`.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) abbreviations: Abbreviations,
}
