//! Damaged BTF: whatever is taken as a table of types can be gone through, and
//! every walk in it ends.
#![no_main]

use bigiron_format::bytes::Endian;
use bigiron_inspect::define;
use bigiron_kernel::types::btf::Btf;
use bigiron_kernel::types::{
    Named, TypeId, TypeTable, WithWritten, find_member, parse_type, resolve, size_of,
};
use libfuzzer_sys::fuzz_target;

/// Types that are looked at closely; looking a name up goes through all of them.
const MOST: u64 = 64;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let endian = match choice & 1 {
        0 => Endian::Little,
        _ => Endian::Big,
    };
    let Ok(btf) = Btf::parse(bytes.to_vec(), endian) else {
        return;
    };
    assert!(btf.len() as usize <= bytes.len());
    for id in 0..btf.len() {
        let id = TypeId(id);
        assert!(btf.get(id).is_ok(), "{id:?} was counted");
        assert!(btf.enumerators(id).is_ok_and(|all| all.len() <= 0xffff));
    }
    for id in 0..btf.len().min(MOST) {
        let id = TypeId(id);
        let _ = (resolve(&btf, id), size_of(&btf, id));
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
            let _ = WithWritten::new(&btf).add(&format!("{name}[2]*"));
            let _ = (btf.variable(&name, None), btf.enumerator(&name));
        }
    }
});
