//! BTF, the type information in a kernel's memory (CONFIG_DEBUG_INFO_BTF), or in the section
//! `.BTF` of a vmlinux.
//!
//! Format: Documentation/bpf/btf.rst and include/uapi/linux/btf.h. A header, the types in
//! sequence, numbered from 1, and their names. Only per-CPU variables are included, unless
//! pahole was told to include all.
//!
//! A module's table extends the kernel's: type numbers and name offsets continue where the
//! kernel's end (commit 951bb64621b8).

mod names;
mod table;

use std::sync::{Arc, OnceLock};

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::{Named, Shape, TypeId};
use crate::error::KernelError;
use crate::kernel_memory::KernelMemory;
use crate::symbols::Symbols;
use names::{Group, NameIndex};

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// Size of the common part of a type.
const COMMON: usize = 12;
/// Maximum size of BTF; a kernel's takes 4 to 12 MiB.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum length of a name, KSYM_NAME_LEN. All members may share one long name.
const MAX_NAME: usize = 512;

/// The kinds of types (BTF_KIND_*).
mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// A BTF table.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    endian: Endian,
    /// Offset of each type; `void`, the first of a table without a base, has none.
    starts: Vec<u32>,
    /// Range of the names.
    strings: std::ops::Range<usize>,
    /// The base table that this one extends.
    base: Option<Arc<Btf>>,
    /// This table's own types by name, built on the first lookup.
    by_name: OnceLock<NameIndex>,
}

/// The common part of a type.
#[derive(Clone, Copy)]
struct Head {
    name: u32,
    kind: u32,
    /// Number of members, values or parameters that follow.
    count: usize,
    /// kind_flag: members have a bit field's size in their offset; a value is signed; a
    /// declaration is of a union.
    flag: bool,
    size_or_type: u32,
    /// Offset of the kind-specific part.
    rest: usize,
}

impl Head {
    /// The namespace of its name.
    fn group(&self) -> Option<Group> {
        Some(match self.kind {
            kind::STRUCT => Group::Type(Named::Struct),
            kind::UNION => Group::Type(Named::Union),
            kind::ENUM | kind::ENUM64 => Group::Type(Named::Enumeration),
            kind::TYPEDEF => Group::Type(Named::Typedef),
            kind::INT | kind::FLOAT => Group::Type(Named::Base),
            kind::VAR => Group::Variable,
            kind::FUNC => Group::Function,
            _ => return None,
        })
    }
}

/// Reads the BTF of the kernel from its memory; returns `None` if there is none.
pub fn from_memory(
    memory: &dyn KernelMemory,
    symbols: &Symbols,
) -> Result<Option<Btf>, KernelError> {
    // Set by the linker around the section (include/asm-generic/vmlinux.lds.h).
    let (Some(start), Some(end)) = (symbols.find("__start_BTF"), symbols.find("__stop_BTF")) else {
        return Ok(None);
    };
    let len = end.address.0.wrapping_sub(start.address.0);
    Btf::parse(read(memory, start.address, len)?, memory.endian()).map(Some)
}

/// Reads the BTF of a module, `len` bytes at `start`, which extends `base`.
pub fn of_module(
    memory: &dyn KernelMemory,
    start: VirtAddr,
    len: u64,
    base: Arc<Btf>,
) -> Result<Btf, KernelError> {
    Btf::parse_split(read(memory, start, len)?, memory.endian(), base)
}

fn read(memory: &dyn KernelMemory, start: VirtAddr, len: u64) -> Result<Vec<u8>, KernelError> {
    if len > MAX_BYTES {
        return Err(damaged(
            "its size",
            format!("{len} bytes"),
            "at most 256 MiB",
        ));
    }
    let mut bytes = Vec::new();
    let mut piece = [0; 16 << 10];
    while (bytes.len() as u64) < len {
        let count = (len as usize - bytes.len()).min(piece.len());
        let address = start.checked_add(bytes.len() as u64);
        let address = address.ok_or(KernelError::NotMapped {
            what: "BTF",
            address: start,
        })?;
        memory.read("BTF", address, &mut piece[..count])?;
        bytes.extend_from_slice(&piece[..count]);
    }
    Ok(bytes)
}

impl Btf {
    /// A table that contains only `void`.
    pub fn empty() -> Self {
        Self {
            bytes: Vec::new(),
            endian: Endian::Little,
            starts: vec![0],
            strings: 0..0,
            base: None,
            by_name: OnceLock::new(),
        }
    }

    /// Parses a table without a base, checking the bounds of each type.
    pub fn parse(bytes: Vec<u8>, endian: Endian) -> Result<Self, KernelError> {
        Self::parse_after(bytes, endian, None)
    }

    /// Parses a table that extends `base`, such as a module's.
    pub fn parse_split(
        bytes: Vec<u8>,
        endian: Endian,
        base: Arc<Self>,
    ) -> Result<Self, KernelError> {
        Self::parse_after(bytes, endian, Some(base))
    }

    fn parse_after(
        bytes: Vec<u8>,
        endian: Endian,
        base: Option<Arc<Self>>,
    ) -> Result<Self, KernelError> {
        let field = |offset| endian.u32(&bytes, offset).map(|value| value as usize);
        if endian.u16(&bytes, 0) != Some(MAGIC) {
            let found = format!("{:02x?}", &bytes[..bytes.len().min(2)]);
            return Err(damaged("its first bytes", found, "the magic number eb9f"));
        }
        let range = |offset: usize, what| {
            let (from, len) = (field(offset)?, field(offset + 4)?);
            let start = field(4)?.checked_add(from)?;
            let end = start.checked_add(len)?;
            (end <= bytes.len()).then_some((start..end, what))
        };
        let header = field(4).unwrap_or(0);
        let (Some((types, _)), Some((strings, _)), HEADER..) =
            (range(8, "types"), range(16, "strings"), header)
        else {
            let found = format!("{} bytes, header of {header}", bytes.len());
            return Err(damaged("its header", found, "sections inside of it"));
        };
        let mut btf = Self {
            bytes,
            endian,
            starts: if base.is_none() { vec![0] } else { Vec::new() },
            strings,
            base,
            by_name: OnceLock::new(),
        };
        let mut at = types.start;
        while at < types.end {
            let head = btf.head_at(at)?;
            btf.starts.push(at as u32);
            let rest = match head.kind {
                kind::INT | kind::VAR | kind::DECL_TAG => 4,
                kind::ARRAY => 12,
                kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * head.count,
                kind::ENUM | kind::FUNC_PROTO => 8 * head.count,
                kind::PTR..=kind::TYPE_TAG => 0,
                other => {
                    // Its length is unknown, so nothing after it can be read.
                    let found = format!("{other} at {at:#x}");
                    return Err(damaged("a kind of type", found, "1 to 19"));
                }
            };
            at = head.rest + rest;
        }
        if at != types.end {
            let found = format!("{at:#x}");
            return Err(damaged(
                "the end of its last type",
                found,
                "the end of the types",
            ));
        }
        Ok(btf)
    }

    /// Number of types, including `void` and those of the base. Type numbers are below it.
    pub fn len(&self) -> u64 {
        self.first() + self.starts.len() as u64
    }

    /// Returns true if there are only `void` and the types of the base.
    pub fn is_empty(&self) -> bool {
        self.len() == self.first().max(1)
    }

    /// The number of the first type that is not in the base.
    pub fn first(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.len())
    }

    /// Bytes of names, including those of the base. Name offsets are below it.
    pub fn names_len(&self) -> u64 {
        self.first_name() + self.strings.len() as u64
    }

    fn first_name(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.names_len())
    }

    /// The table with the type: this one or its base.
    fn owner(&self, id: TypeId) -> &Self {
        match &self.base {
            Some(base) if id.0 < self.first() => base.owner(id),
            _ => self,
        }
    }

    fn head_at(&self, at: usize) -> Result<Head, KernelError> {
        let field = |offset| self.endian.u32(&self.bytes, offset);
        let (Some(name), Some(info), Some(size_or_type)) =
            (field(at), field(at + 4), field(at + 8))
        else {
            return Err(damaged(
                "a type",
                format!("{at:#x}"),
                "an offset inside of it",
            ));
        };
        Ok(Head {
            name,
            kind: info >> 24 & 0x1f,
            count: (info & 0xffff) as usize,
            flag: info >> 31 != 0,
            size_or_type,
            rest: at + COMMON,
        })
    }

    /// The common part of one of this table's own types.
    fn head(&self, id: TypeId) -> Result<Head, KernelError> {
        let index = id.0.checked_sub(self.first());
        let index = index.and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.starts.get(index)) {
            Some(start) if id != TypeId::VOID => self.head_at(*start as usize),
            _ => {
                let expected = "the number of a type";
                Err(damaged("a reference", id.0.to_string(), expected))
            }
        }
    }

    fn u32_at(&self, offset: usize) -> u32 {
        self.endian.u32(&self.bytes, offset).unwrap_or(0)
    }

    fn name(&self, offset: u32) -> Option<&str> {
        let Some(offset) = u64::from(offset).checked_sub(self.first_name()) else {
            return self.base.as_ref()?.name(offset);
        };
        let strings = &self.bytes[self.strings.clone()];
        let text = strings.get(usize::try_from(offset).ok()?..)?;
        let text = &text[..text.len().min(MAX_NAME)];
        let end = text.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&text[..end]).ok()?;
        (!text.is_empty()).then_some(text)
    }

    /// Iterates over this table's own types.
    fn heads(&self) -> impl Iterator<Item = (TypeId, Head)> + '_ {
        let first = self.first();
        let starts = self.starts.iter().enumerate();
        starts.filter_map(move |(index, start)| {
            let id = TypeId(first + index as u64);
            let head = self.head_at(*start as usize).ok()?;
            (id != TypeId::VOID).then_some((id, head))
        })
    }

    /// BTF's number of a variable, by which the kernel's BPF refers to it.
    pub fn variable_number(&self, name: &str) -> Option<u32> {
        let (id, _) = self.named(Group::Variable, name)?;
        u32::try_from(id.0).ok()
    }

    /// Finds the first own type of the group with this name.
    fn named(&self, group: Group, name: &str) -> Option<(TypeId, Head)> {
        let first = self.first();
        let index = self.by_name.get_or_init(|| {
            NameIndex::new(self.heads().filter_map(|(id, head)| {
                let position = u32::try_from(id.0 - first).ok()?;
                Some((head.group()?, self.name(head.name)?, position))
            }))
        });
        index.candidates(group, name).find_map(|position| {
            let id = TypeId(first + u64::from(position));
            let head = self.head(id).ok()?;
            let fits = head.group() == Some(group) && self.name(head.name) == Some(name);
            fits.then_some((id, head))
        })
    }

    /// The bit range of an integer that does not use all of its bytes: first bit and number
    /// (bit fields of compilers before BTF's flag for them).
    fn integer_bits(&self, id: u32) -> Option<(u64, u64)> {
        let (id, found) = super::resolve(self, TypeId(u64::from(id))).ok()?;
        let Shape::Base(size) = found.shape else {
            return None;
        };
        let own = self.owner(id);
        let head = own.head(id).ok().filter(|head| head.kind == kind::INT)?;
        let encoding = own.u32_at(head.rest);
        let (offset, bits) = (encoding >> 16 & 0xff, u64::from(encoding & 0xff));
        (bits != size * 8).then_some((u64::from(offset), bits))
    }
}

fn damaged(what: &str, found: impl Into<String>, expected: &'static str) -> KernelError {
    KernelError::Implausible {
        what: format!("{what} in the kernel's BTF"),
        found: found.into(),
        expected,
    }
}
