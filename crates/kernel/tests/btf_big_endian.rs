//! Big-endian BTF, as gcc makes it for s390x (tests/golden/big_endian.c).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use bigiron_format::bytes::Endian;
use bigiron_kernel::types::btf::Btf;
use bigiron_kernel::types::{Shape, TypeTable, find_nested_member, resolve, size_of, structure};

const TABLE: &[u8] = include_bytes!("golden/big_endian.btf");

#[test]
fn types_of_a_big_endian_machine_have_the_compilers_layout() {
    let types = Btf::parse(TABLE.to_vec(), Endian::Big).unwrap();
    let outer = structure(&types, "outer").unwrap().unwrap();
    assert_eq!(size_of(&types, outer).unwrap(), Some(56));
    let member = |path| find_nested_member(&types, outer, path).unwrap().unwrap();
    for (path, offset) in [
        ("count", 0),
        ("inner", 8),
        ("word", 16),
        ("next", 24),
        ("array", 32),
        ("zone", 48),
    ] {
        assert_eq!(member(path).offset, offset, "{path}");
    }
    let shape = |path| resolve(&types, member(path).type_id).unwrap().1.shape;
    assert_eq!(shape("count"), Shape::Base(2));
    assert!(matches!(shape("next"), Shape::Pointer(to) if to == outer));
    assert!(matches!(shape("array"), Shape::Array(_, 4)));
    assert_eq!(shape("zone"), Shape::Enumeration(4));
    assert_eq!(types.enumerator("ZONE_NORMAL").unwrap(), Some(7));
}

#[test]
fn byte_order_of_another_machine_is_refused() {
    assert!(Btf::parse(TABLE.to_vec(), Endian::Little).is_err());
}
