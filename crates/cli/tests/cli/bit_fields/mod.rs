//! Bit fields in either byte order: types from pahole, and data from the compiler of each machine
//! (fields.c).

use std::fs;
use std::path::Path;

use bigiron_synth::{ElfShape, NamedMachine, Synth};
use serde_json::Value;

use crate::common::{arg, run};

/// Writes the core of a machine with two variables, the second of which is at `packed` in the data.
fn core(directory: &Path, arch: &str, types: &[u8], data: &[u8], packed: u64) -> String {
    let text = format!("{arch}kernel 6.12\nram 0x0-0x3fff\npages 0x300 reserved n=16");
    let mut machine = NamedMachine::new(Synth::from_text(&text).unwrap(), 0x300).unwrap();
    let fields = machine.put(data).unwrap();
    let symbols = [("Dfields", fields), ("Dpacked", fields + packed)];
    machine.names(types, &symbols).unwrap();
    let path = directory.join("core");
    fs::write(&path, machine.machine().elf(&ElfShape::vmcore())).unwrap();
    arg(&path).to_owned()
}

/// Adds the names and values of members, also of those in an anonymous struct.
fn add(found: &mut Vec<(String, String)>, members: &Value) {
    for member in members.as_array().unwrap() {
        match member.get("members") {
            Some(inner) => add(found, inner),
            None => {
                if let Some(name) = member["name"].as_str() {
                    let value = member.get("enumerator").unwrap_or(&member["value"]);
                    found.push((name.to_owned(), value.to_string()));
                }
            }
        }
    }
}

#[test]
fn bit_fields_have_the_values_that_the_compiler_stored() {
    let machines: [(&str, &[u8], &[u8], u64); 2] = [
        (
            "",
            include_bytes!("little.btf"),
            include_bytes!("little.data"),
            32,
        ),
        (
            "arch s390x\n",
            include_bytes!("big.btf"),
            include_bytes!("big.data"),
            24,
        ),
    ];
    for (arch, types, data, offset) in machines {
        let directory = tempfile::tempdir().unwrap();
        let core = core(directory.path(), arch, types, data, offset);
        let read = |name: &str| {
            let said = run(&["read", "--json", &core, name, name]).code(0);
            let said: Value = serde_json::from_slice(&said.stdout).unwrap();
            let mut found = Vec::new();
            add(&mut found, &said["members"]);
            found
        };
        let expected = [
            ("first", "5"),
            ("second", "100"),
            ("third", "-200"),
            ("fourth", "8000"),
            ("small", "21"),
            ("flag", "1"),
            ("yes", "true"),
            ("wide", "78187493525"),
            ("last", "-300000"),
            ("kind", "\"SEVEN\""),
            ("inner", "33"),
            ("after", "1500"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read("fields"), expected, "{arch}");
        let packed = read("packed");
        assert_eq!(packed[1].1, 0x0123_4567_89ab_cdef_u64.to_string(), "{arch}");
        assert_eq!(packed[2].1, "42", "{arch}");
        let one = run(&["read", &core, "fields.last", "fields"])
            .code(0)
            .text();
        assert!(one.contains("-300000"), "{arch}: {one}");
    }
}
