//! Damaged BTF: an accepted table of types can be traversed, and every walk in it ends.
#![no_main]

use std::sync::{Arc, LazyLock};

use bigiron_format::bytes::Endian;
use bigiron_inspect::declaration::declaration;
use bigiron_inspect::define;
use bigiron_kernel::types::btf::Btf;
use bigiron_kernel::types::{
    Named, TypeId, TypeTable, WithAddedTypes, find_member, parse_type, resolve, size_of,
};
use libfuzzer_sys::fuzz_target;

/// Number of types examined closely; the lookup of a name visits all of them.
const MOST: u64 = 64;

/// A base table, which the input extends: `void`, `int` as 1, `int *` as 2, and as 3 a struct
/// `base` of both; 17 bytes of names.
static BASE: LazyLock<Arc<Btf>> = LazyLock::new(|| {
    let names = b"\0int\0base\0a\0b\0\0\0";
    let types = [
        [1, 1 << 24, 4, 32 | 1 << 24].as_slice(),
        &[0, 2 << 24, 1],
        &[5, 4 << 24 | 2, 16, 10, 1, 0, 12, 2, 64],
    ];
    let types = types.concat();
    let len = 4 * types.len() as u32;
    let header = [0x1_eb9f, 24, 0, len, len, names.len() as u32];
    let words = header
        .iter()
        .chain(&types)
        .flat_map(|word| word.to_le_bytes());
    let bytes = words.chain(names.iter().copied()).collect();
    Arc::new(Btf::parse(bytes, Endian::Little).expect("a sound table"))
});

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let endian = match choice & 1 {
        0 => Endian::Little,
        _ => Endian::Big,
    };
    let is_split = choice & 2 != 0;
    let parsed = match is_split {
        true => Btf::parse_split(bytes.to_vec(), endian, Arc::clone(&BASE)),
        false => Btf::parse(bytes.to_vec(), endian),
    };
    let Ok(btf) = parsed else {
        return;
    };
    assert!((btf.len() - btf.first()) as usize <= bytes.len());
    if is_split {
        assert_eq!(btf.get(TypeId(1)).ok(), BASE.get(TypeId(1)).ok());
        assert_eq!(btf.first(), BASE.len());
    }
    for id in 0..btf.len() {
        let id = TypeId(id);
        assert!(btf.get(id).is_ok(), "{id:?} was counted");
        assert!(btf.enumerators(id).is_ok_and(|all| all.len() <= 0xffff));
    }
    for id in 0..btf.len().min(MOST) {
        let id = TypeId(id);
        let _ = (resolve(&btf, id), size_of(&btf, id));
        let _ = (btf.prototype(id), btf.keyword(id), btf.encoding(id));
        if let Ok(text) = declaration(&btf, id, "x") {
            assert!(text.len() < 4 << 20, "{} bytes", text.len());
        }
        for member in btf.members(id).unwrap_or_default().into_iter().take(8) {
            let Some(name) = member.name else { continue };
            let place = find_member(&btf, id, &name);
            assert!(!matches!(place, Ok(None)), "{name} is a member");
            let _ = parse_type(&btf, &format!("{name}*[3]"));
        }
        if let Ok(found) = btf.get(id)
            && let Some(name) = found.name
        {
            let _ = btf.find(Named::Struct, &name);
            let _ = define(&btf, &name);
            let _ = WithAddedTypes::new(&btf).add(&format!("{name}[2]*"));
            let _ = (btf.variable(&name, None), btf.enumerator(&name));
            let _ = define(&btf, &format!("{name}()"));
        }
    }
});
