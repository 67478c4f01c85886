//! BTF, the types that a kernel carries in its memory (CONFIG_DEBUG_INFO_BTF), or
//! that stand in the section `.BTF` of a vmlinux.
//!
//! Layout: Documentation/bpf/btf.rst and include/uapi/linux/btf.h. A header, the
//! types one after the other, numbered from 1, and their names. Variables are in
//! it only where they are per CPU, unless pahole was told to take all.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::{Member, Named, Shape, Type, TypeId, TypeTable};
use crate::error::KernelError;
use crate::printk::KernelMemory;
use crate::symbols::Symbols;

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// Bytes of a type before what its kind adds.
const COMMON: usize = 12;
/// A kernel's BTF takes 4 to 12 MiB.
const MOST_BYTES: u64 = 256 << 20;

/// The kinds (BTF_KIND_*).
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

/// A table of types in BTF.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    endian: Endian,
    /// Where each type begins; `void`, the first, is nowhere.
    starts: Vec<u32>,
    /// Where the names are.
    strings: std::ops::Range<usize>,
}

/// The common part of one type.
#[derive(Clone, Copy)]
struct Head {
    name: u32,
    kind: u32,
    /// How many members, values or parameters follow.
    count: usize,
    /// Members have a bit field's size in their offset; a value is signed; a
    /// declaration is of a union.
    flag: bool,
    size_or_type: u32,
    /// Where what the kind adds begins.
    rest: usize,
}

/// Reads the BTF of the kernel itself out of its memory; `None` if it has none.
pub fn from_memory(
    memory: &dyn KernelMemory,
    symbols: &Symbols,
) -> Result<Option<Btf>, KernelError> {
    // Set by the linker around the section (include/asm-generic/vmlinux.lds.h).
    let (Some(start), Some(end)) = (symbols.find("__start_BTF"), symbols.find("__stop_BTF")) else {
        return Ok(None);
    };
    read(
        memory,
        start.address,
        end.address.0.wrapping_sub(start.address.0),
    )
    .map(Some)
}

fn read(memory: &dyn KernelMemory, start: VirtAddr, len: u64) -> Result<Btf, KernelError> {
    if len > MOST_BYTES {
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
    Btf::parse(bytes, memory.endian())
}

impl Btf {
    /// Checks the frame of the table: where each type begins and ends.
    pub fn parse(bytes: Vec<u8>, endian: Endian) -> Result<Self, KernelError> {
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
            starts: vec![0],
            strings,
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
                    // Its length is unknown, so nothing behind it can be read.
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

    /// How many types there are, `void` among them. Their numbers are below.
    pub fn len(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Whether there is none but `void`.
    pub fn is_empty(&self) -> bool {
        self.starts.len() == 1
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

    fn head(&self, id: TypeId) -> Result<Head, KernelError> {
        let start = usize::try_from(id.0).ok();
        match start.and_then(|index| self.starts.get(index)) {
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
        let strings = &self.bytes[self.strings.clone()];
        let text = strings.get(offset as usize..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&text[..end]).ok()?;
        (!text.is_empty()).then_some(text)
    }

    fn heads(&self) -> impl Iterator<Item = (TypeId, Head)> + '_ {
        let starts = self.starts.iter().enumerate().skip(1);
        starts.filter_map(|(index, start)| {
            let head = self.head_at(*start as usize).ok()?;
            Some((TypeId(index as u64), head))
        })
    }

    /// The bits of an integer where they are not all of its bytes: the first,
    /// and how many (bit fields of compilers before BTF's flag for them).
    fn integer_bits(&self, id: u32) -> Option<(u64, u64)> {
        let (id, found) = super::resolve(self, TypeId(u64::from(id))).ok()?;
        let Shape::Base(size) = found.shape else {
            return None;
        };
        let head = self.head(id).ok().filter(|head| head.kind == kind::INT)?;
        let encoding = self.u32_at(head.rest);
        let (offset, bits) = (encoding >> 16 & 0xff, u64::from(encoding & 0xff));
        (bits != size * 8).then_some((u64::from(offset), bits))
    }
}

impl TypeTable for Btf {
    fn get(&self, id: TypeId) -> Result<Type, KernelError> {
        if id == TypeId::VOID {
            return Ok(Type {
                name: None,
                shape: Shape::Void,
            });
        }
        let head = self.head(id)?;
        let size = u64::from(head.size_or_type);
        let to = TypeId(size);
        let shape = match head.kind {
            kind::INT | kind::FLOAT => Shape::Base(size),
            kind::PTR => Shape::Pointer(to),
            kind::ARRAY => Shape::Array(
                TypeId(u64::from(self.u32_at(head.rest))),
                u64::from(self.u32_at(head.rest + 8)),
            ),
            kind::STRUCT => Shape::Struct(size),
            kind::UNION => Shape::Union(size),
            kind::ENUM | kind::ENUM64 => Shape::Enumeration(size),
            kind::FWD => Shape::Declaration,
            kind::TYPEDEF
            | kind::VOLATILE
            | kind::CONST
            | kind::RESTRICT
            | kind::TYPE_TAG
            | kind::VAR => Shape::Alias(to),
            kind::FUNC | kind::FUNC_PROTO => Shape::Function,
            // A section and a tag on a declaration: no type of any data.
            _ => Shape::Void,
        };
        Ok(Type {
            name: self.name(head.name).map(str::to_owned),
            shape,
        })
    }

    fn members(&self, id: TypeId) -> Result<Vec<Member>, KernelError> {
        if id == TypeId::VOID {
            return Ok(Vec::new());
        }
        let head = self.head(id)?;
        if !matches!(head.kind, kind::STRUCT | kind::UNION) {
            return Ok(Vec::new());
        }
        let member = |index| {
            let at = head.rest + 12 * index;
            let (name, type_id, offset) =
                (self.u32_at(at), self.u32_at(at + 4), self.u32_at(at + 8));
            let (bit_offset, bit_size) = if head.flag {
                let bits = u64::from(offset >> 24);
                (u64::from(offset & 0xff_ffff), (bits > 0).then_some(bits))
            } else {
                match self.integer_bits(type_id) {
                    Some((start, bits)) => (u64::from(offset) + start, Some(bits)),
                    None => (u64::from(offset), None),
                }
            };
            Member {
                name: self.name(name).map(str::to_owned),
                type_id: TypeId(u64::from(type_id)),
                bit_offset,
                bit_size,
            }
        };
        Ok((0..head.count).map(member).collect())
    }

    fn enumerators(&self, id: TypeId) -> Result<Vec<(String, i64)>, KernelError> {
        if id == TypeId::VOID {
            return Ok(Vec::new());
        }
        let head = self.head(id)?;
        let value = |at: usize| match (head.kind, head.flag) {
            (kind::ENUM, true) => i64::from(self.u32_at(at + 4).cast_signed()),
            (kind::ENUM, false) => i64::from(self.u32_at(at + 4)),
            _ => {
                let (low, high) = (self.u32_at(at + 4), self.u32_at(at + 8));
                (u64::from(high) << 32 | u64::from(low)).cast_signed()
            }
        };
        let width = match head.kind {
            kind::ENUM => 8,
            kind::ENUM64 => 12,
            _ => return Ok(Vec::new()),
        };
        let places = (0..head.count).map(|index| head.rest + width * index);
        Ok(places
            .filter_map(|at| Some((self.name(self.u32_at(at))?.to_owned(), value(at))))
            .collect())
    }

    fn find(&self, named: Named, name: &str) -> Result<Option<TypeId>, KernelError> {
        let fits = |head: &Head| match named {
            Named::Struct => head.kind == kind::STRUCT,
            Named::Union => head.kind == kind::UNION,
            Named::Enumeration => matches!(head.kind, kind::ENUM | kind::ENUM64),
            Named::Typedef => head.kind == kind::TYPEDEF,
            Named::Base => matches!(head.kind, kind::INT | kind::FLOAT),
        };
        let found = self
            .heads()
            .find(|(_, head)| fits(head) && self.name(head.name) == Some(name));
        Ok(found.map(|(id, _)| id))
    }

    fn enumerator(&self, name: &str) -> Result<Option<i64>, KernelError> {
        for (id, head) in self.heads() {
            if !matches!(head.kind, kind::ENUM | kind::ENUM64) {
                continue;
            }
            let values = self.enumerators(id)?;
            if let Some((_, value)) = values.into_iter().find(|(found, _)| found == name) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn variable(&self, name: &str, _address: Option<u64>) -> Result<Option<TypeId>, KernelError> {
        let found = self
            .heads()
            .find(|(_, head)| head.kind == kind::VAR && self.name(head.name) == Some(name));
        Ok(found.map(|(_, head)| TypeId(u64::from(head.size_or_type))))
    }
}

fn damaged(what: &str, found: impl Into<String>, expected: &'static str) -> KernelError {
    KernelError::Implausible {
        what: format!("{what} in the kernel's BTF"),
        found: found.into(),
        expected,
    }
}
