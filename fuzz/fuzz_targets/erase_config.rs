//! Erase commands of all kinds, on memory with arbitrary lists and lengths: resolving them
//! ends, and the blanks are sorted and within their limit.
#![no_main]

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_fuzz::KernelBytes;
use bigiron_kernel::KernelError;
use bigiron_kernel::erase::{Config, resolve};
use bigiron_kernel::symbols::Symbols;
use bigiron_kernel::types::{Member, Named, Shape, Type, TypeId, TypeTable};
use libfuzzer_sys::fuzz_target;

/// Memory is the rest of the input, at small addresses that it can point to.
const BASE: u64 = 0x1000;

/// `struct node { struct node *next; struct list_head list; char name[8];
/// void *key; char *text; u32 len; self_t loop; }` and `struct list_head`.
struct Types;

impl TypeTable for Types {
    fn get(&self, id: TypeId) -> Result<Type, KernelError> {
        let (name, shape) = match id.0 {
            1 => (Some("node"), Shape::Struct(64)),
            2 => (Some("list_head"), Shape::Struct(16)),
            3 => (Some("char"), Shape::Base(1)),
            4 => (Some("u32"), Shape::Base(4)),
            5 => (None, Shape::Pointer(TypeId(1))),
            6 => (None, Shape::Pointer(TypeId(2))),
            7 => (None, Shape::Pointer(TypeId::VOID)),
            8 => (None, Shape::Pointer(TypeId(3))),
            9 => (None, Shape::Array(TypeId(3), 8)),
            10 => (None, Shape::Array(TypeId(1), 4)),
            11 => (Some("self_t"), Shape::Alias(TypeId(11))),
            12 => (None, Shape::Array(TypeId(8), 4)),
            _ => (None, Shape::Void),
        };
        Ok(Type {
            name: name.map(str::to_owned),
            shape,
        })
    }

    fn members(&self, id: TypeId) -> Result<Vec<Member>, KernelError> {
        let members: &[(&str, u64, u64)] = match id.0 {
            1 => &[
                ("next", 5, 0),
                ("list", 2, 8),
                ("name", 9, 24),
                ("key", 7, 32),
                ("text", 8, 40),
                ("len", 4, 48),
                ("loop", 11, 56),
            ],
            2 => &[("next", 6, 0), ("prev", 6, 8)],
            _ => &[],
        };
        let member = |(name, type_id, offset): &(&str, u64, u64)| Member {
            name: Some((*name).to_owned()),
            type_id: TypeId(*type_id),
            bit_offset: offset * 8,
            bit_size: None,
        };
        Ok(members.iter().map(member).collect())
    }

    fn enumerators(&self, _: TypeId) -> Result<Vec<(String, i64)>, KernelError> {
        Ok(Vec::new())
    }

    fn find(&self, named: Named, name: &str) -> Result<Option<TypeId>, KernelError> {
        Ok(match (named, name) {
            (Named::Struct, "node") => Some(TypeId(1)),
            (Named::Struct, "list_head") => Some(TypeId(2)),
            (Named::Base, "char") => Some(TypeId(3)),
            (Named::Base, "u32") => Some(TypeId(4)),
            (Named::Typedef, "self_t") => Some(TypeId(11)),
            _ => None,
        })
    }

    fn enumerator(&self, _: &str) -> Result<Option<i64>, KernelError> {
        Ok(None)
    }

    fn variable(&self, name: &str, _: Option<u64>) -> Result<Option<TypeId>, KernelError> {
        Ok(match name {
            "head" => Some(TypeId(2)),
            "first" => Some(TypeId(1)),
            "pointer" => Some(TypeId(5)),
            "nodes" => Some(TypeId(10)),
            "texts" => Some(TypeId(12)),
            "count" => Some(TypeId(4)),
            _ => None,
        })
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((len, rest)) = data.split_first_chunk() else {
        return;
    };
    let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
    let (text, bytes) = rest.split_at(len);
    let config = Config::parse(text);
    let mut symbols = Symbols::default();
    for (index, name) in ["head", "first", "pointer", "nodes", "texts", "count", "any"]
        .into_iter()
        .enumerate()
    {
        symbols.push(name, BASE + 64 * index as u64, b'D');
    }
    let Ok(info) = Vmcoreinfo::parse(b"OSRELEASE=6.1.0\nPAGESIZE=4096\n", 0) else {
        return;
    };
    let memory = KernelBytes {
        info,
        endian: Endian::Little,
        base: BASE,
        bytes: bytes.to_vec(),
        // Pages in reverse order.
        physical: |address| address ^ 0xf000,
    };
    let erasure = resolve(&config, &memory, &symbols, &Types, 0);
    assert!(erasure.problems.len() >= config.problems.len());
    let blanks = erasure.blanks.as_slice();
    assert!(blanks.iter().all(|blank| blank.start < blank.end));
    assert!(blanks.is_sorted_by(|a, b| a.end <= b.start), "they overlap");
    let sum: u64 = blanks.iter().map(|blank| blank.end - blank.start).sum();
    assert!(sum <= bytes.len() as u64, "more than there is");
});
