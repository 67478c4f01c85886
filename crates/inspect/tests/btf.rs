//! Types out of tables made by hand: a module's that goes on from the kernel's,
//! functions and qualifiers as C writes them, and tables that lie.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::sync::Arc;

use bigiron_format::bytes::Endian;
use bigiron_inspect::declaration::declaration;
use bigiron_inspect::{Kind, define};
use bigiron_kernel::types::btf::Btf;
use bigiron_kernel::types::{Encoding, Named, TypeId, TypeTable, find_member, resolve, size_of};

const INT: u32 = 1 << 24;
const POINTER: u32 = 2 << 24;
const ARRAY: u32 = 3 << 24;
const STRUCT: u32 = 4 << 24;
const FORWARD: u32 = 7 << 24;
const TYPEDEF: u32 = 8 << 24;
const CONST: u32 = 10 << 24;
const FUNCTION: u32 = 12 << 24;
const PROTOTYPE: u32 = 13 << 24;
const TAG: u32 = 18 << 24;
const FLAG: u32 = 1 << 31;

/// A table in the making.
struct Table {
    words: Vec<u32>,
    names: Vec<u8>,
    /// Bytes of names in the base.
    first_name: u32,
}

impl Table {
    fn new() -> Self {
        Self {
            words: Vec::new(),
            names: vec![0],
            first_name: 0,
        }
    }

    fn after(base: &Btf) -> Self {
        Self {
            words: Vec::new(),
            names: Vec::new(),
            first_name: base.names_len() as u32,
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.first_name + self.names.len() as u32;
        self.names.extend(name.bytes().chain([0]));
        at
    }

    /// Adds a type: its name, kind with count, size or type, and what follows.
    fn add(&mut self, name: &str, info: u32, size_or_type: u32, rest: &[u32]) {
        let name = self.name(name);
        self.words.extend([name, info, size_or_type]);
        self.words.extend(rest);
    }

    fn bytes(&self) -> Vec<u8> {
        let len = 4 * self.words.len() as u32;
        let header = [0x1_eb9f, 24, 0, len, len, self.names.len() as u32];
        let words = header.iter().chain(&self.words);
        let bytes = words.flat_map(|word| word.to_le_bytes());
        bytes.chain(self.names.iter().copied()).collect()
    }

    fn parse(&self) -> Btf {
        Btf::parse(self.bytes(), Endian::Little).unwrap()
    }
}

/// 1 int, 2 char, 3 const char, 4 const char *, 5 struct file, 6 struct file *,
/// 7 a prototype, 8 its function vfs_read, 9 a pointer to such, 10 an array of those,
/// 11 union later, 12 union later *, 13 a tagged char, 14 a pointer to that,
/// 15 long variadic prototype, 16 its function.
fn kernel() -> Btf {
    let mut table = Table::new();
    table.add("int", INT, 4, &[32 | 1 << 24]);
    table.add("char", INT, 1, &[8 | 1 << 24]);
    table.add("", CONST, 2, &[]);
    table.add("", POINTER, 3, &[]);
    let flags = table.name("f_flags");
    table.add("file", STRUCT | 1, 4, &[flags, 1, 0]);
    table.add("", POINTER, 5, &[]);
    let (file, name) = (table.name("file"), table.name("name"));
    table.add("", PROTOTYPE | 2, 1, &[file, 6, name, 4]);
    table.add("vfs_read", FUNCTION, 7, &[]);
    table.add("", POINTER, 7, &[]);
    table.add("", ARRAY, 0, &[9, 1, 3]);
    table.add("later", FORWARD | FLAG, 0, &[]);
    table.add("", POINTER, 11, &[]);
    table.add("user", TAG, 2, &[]);
    table.add("", POINTER, 13, &[]);
    table.add("", PROTOTYPE | 2, 0, &[name, 4, 0, 0]);
    table.add("panic", FUNCTION, 15, &[]);
    table.parse()
}

#[test]
fn functions_and_qualifiers_are_printed_in_c_syntax() {
    let types = kernel();
    let written = |id, name| declaration(&types, TypeId(id), name).unwrap();
    assert_eq!(written(4, "text"), "const char *text");
    assert_eq!(
        written(9, "read"),
        "int (*read)(struct file *file, const char *name)"
    );
    assert_eq!(
        written(10, "all"),
        "int (*all[3])(struct file *file, const char *name)"
    );
    assert_eq!(written(12, "next"), "union later *next");
    assert_eq!(written(14, "to"), "char *to");
    let found = define(&types, "vfs_read").unwrap().unwrap();
    assert_eq!(
        found.name,
        "int vfs_read(struct file *file, const char *name)"
    );
    assert_eq!((found.kind, found.size), (Kind::Function, None));
    let found = define(&types, "panic()").unwrap().unwrap();
    assert_eq!(found.name, "void panic(const char *name, ...)");
    assert_eq!(define(&types, "file()").unwrap(), None);
    assert_eq!(types.encoding(TypeId(1)).unwrap(), Encoding::Signed);
}

#[test]
fn module_types_continue_the_kernels_type_ids() {
    let base = Arc::new(kernel());
    let first = base.len() as u32;
    let mut table = Table::after(&base);
    // A pointer to the kernel's struct, and a struct with it and a name of the base.
    table.add("", POINTER, 5, &[]);
    let own = table.name("own");
    table.add("private", STRUCT | 2, 16, &[own, first, 0, 1, 1, 64]);
    table.add("private_t", TYPEDEF, first + 1, &[]);
    let types = Btf::parse_split(table.bytes(), Endian::Little, Arc::clone(&base)).unwrap();
    assert_eq!((types.first(), types.len()), (base.len(), base.len() + 3));
    let id = types.find(Named::Struct, "private").unwrap().unwrap();
    assert_eq!(id, TypeId(u64::from(first) + 1));
    assert_eq!(base.find(Named::Struct, "private").unwrap(), None);
    let members = types.members(id).unwrap();
    let names: Vec<_> = members
        .iter()
        .map(|member| member.name.as_deref())
        .collect();
    // Offset 1 is the base's first name.
    assert_eq!(names, [Some("own"), Some("int")]);
    let member = find_member(&types, id, "own").unwrap().unwrap();
    assert_eq!(
        declaration(&types, member.type_id, "").unwrap(),
        "struct file *"
    );
    assert_eq!(size_of(&types, id).unwrap(), Some(16));
    let alias = types.find(Named::Typedef, "private_t").unwrap().unwrap();
    assert_eq!(resolve(&types, alias).unwrap().0, id);
    assert_eq!(types.find(Named::Struct, "file").unwrap(), Some(TypeId(5)));
    assert_eq!(types.function("vfs_read").unwrap(), Some(TypeId(8)));
    assert!(types.get(TypeId(types.len())).is_err());
    // By itself it has names that are nowhere and types that are others.
    let alone = Btf::parse(table.bytes(), Endian::Little).unwrap();
    assert_eq!(alone.find(Named::Struct, "private").unwrap(), None);
}

#[test]
fn cyclic_tables_are_bounded() {
    let mut table = Table::new();
    // A function that takes pointers to itself, sixteen times.
    let parameters: Vec<u32> = (0..16).flat_map(|_| [0, 2]).collect();
    table.add("", PROTOTYPE | 16, 2, &parameters);
    table.add("", POINTER, 1, &[]);
    table.add("", CONST, 3, &[]);
    table.add("f", FUNCTION, 4, &[]);
    table.add("g", FUNCTION, 900, &[]);
    let types = table.parse();
    for id in 1..=2 {
        let error = declaration(&types, TypeId(id), "x")
            .unwrap_err()
            .to_string();
        assert!(error.contains("pointer, array or function"), "{error}");
    }
    assert!(declaration(&types, TypeId(3), "x").is_err());
    assert_eq!(types.prototype(TypeId(4)).unwrap(), None);
    assert!(define(&types, "g").is_err());
}

#[test]
fn size_of_a_definition_is_bounded() {
    let mut table = Table::new();
    table.add("int", INT, 4, &[32]);
    // A pointer to a function of 200 parameters, of which a struct has thousands.
    let long = table.name(&"p".repeat(100));
    let parameters: Vec<u32> = (0..200).flat_map(|_| [long, 1]).collect();
    table.add("", PROTOTYPE | 200, 1, &parameters);
    table.add("", POINTER, 2, &[]);
    for count in [100, 50_000] {
        let members: Vec<u32> = (0..count).flat_map(|_| [long, 3, 0]).collect();
        table.add(&format!("of_{count}"), STRUCT | count, 8, &members);
    }
    let types = table.parse();
    let few = define(&types, "of_100").unwrap().unwrap();
    assert_eq!(few.members.len(), 100);
    let error = define(&types, "of_50000").unwrap_err().to_string();
    assert!(error.contains("members"), "{error}");
}

#[test]
fn first_of_several_types_with_one_name_is_found() {
    let mut table = Table::new();
    table.add("same", TYPEDEF, 4, &[]);
    table.add("same", STRUCT, 8, &[]);
    table.add("same", STRUCT, 16, &[]);
    table.add("same", INT, 4, &[32]);
    let types = table.parse();
    for (named, id) in [(Named::Typedef, 1), (Named::Struct, 2), (Named::Base, 4)] {
        assert_eq!(types.find(named, "same").unwrap(), Some(TypeId(id)));
    }
    assert_eq!(types.find(Named::Union, "same").unwrap(), None);
    assert_eq!(types.find(Named::Struct, "other").unwrap(), None);
}
