//! The kernel's own names in a real vmcore, the one in samples/: symbols by
//! kallsyms, types by BTF. What must come out the kernel says itself, in
//! VMCOREINFO, which its own compiler made.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs;
use std::path::Path;

use bigiron_format::VirtAddr;
use bigiron_format::codec::Codec;
use bigiron_kernel::symbols::{Symbols, kallsyms};
use bigiron_kernel::types::btf::{self, Btf};
use bigiron_kernel::types::{
    Named, Shape, TypeTable, find_member, parse_type, resolve, size_of, structure,
};
use bigiron_kernel::{IoMethod, Kernel, Source};

/// More than the sample takes: the packed file does not tell its size.
const ROOM: usize = 160 << 20;

/// Calls `work` with the kernel of the sample, its symbols and its types.
fn with_sample(work: impl FnOnce(&Kernel, &Symbols, &Btf)) {
    let packed = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../samples/linux-6.1-5level.elf.zst"
    );
    let packed = fs::read(packed).unwrap();
    let mut bytes = vec![0; ROOM];
    let mut zstd = bigiron_format::codec::decompressor(Codec::Zstd).unwrap();
    let size = zstd.decompress(&packed, &mut bytes).unwrap();
    bytes.truncate(size);
    let source = Source::from_bytes(Box::new(bytes), Path::new("sample").to_owned()).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let symbols = kallsyms::read(&kernel).unwrap().unwrap();
    let btf = btf::from_memory(&kernel, &symbols).unwrap().unwrap();
    work(&kernel, &symbols, &btf);
}

/// The keys of VMCOREINFO like `SIZE(page)`: what is in the brackets, and the value.
fn keys<'a>(kernel: &'a Kernel, kind: &str) -> Vec<(&'a str, &'a str)> {
    let prefix = format!("{kind}(");
    let lines = kernel.info().text().lines();
    lines
        .filter_map(|line| line.strip_prefix(&prefix)?.split_once(")="))
        .collect()
}

#[test]
fn kallsyms_and_btf_agree_with_vmcoreinfo() {
    with_sample(|kernel, symbols, btf| {
        assert!(symbols.len() > 50_000, "{} symbols", symbols.len());
        let mut checked = 0;
        for (name, value) in keys(kernel, "SYMBOL") {
            let address = u64::from_str_radix(value, 16).unwrap();
            // Some name what a pointer points to, or are macros for another symbol.
            let Some(symbol) = symbols.find(name) else {
                continue;
            };
            if !["mem_section", "swapper_pg_dir"].contains(&name) {
                assert_eq!(symbol.address, VirtAddr(address), "{name}");
                checked += 1;
            }
        }
        assert!(checked > 5, "{checked} symbols compared");

        let mut checked = 0;
        for (name, value) in keys(kernel, "SIZE") {
            let Some(id) = structure(btf, name).unwrap() else {
                continue;
            };
            assert_eq!(size_of(btf, id).unwrap(), value.parse().ok(), "{name}");
            checked += 1;
        }
        for (name, value) in keys(kernel, "OFFSET") {
            let (outer, member) = name.split_once('.').unwrap();
            let Some(id) = structure(btf, outer).unwrap() else {
                continue;
            };
            let Some(place) = find_member(btf, id, member).unwrap() else {
                continue;
            };
            assert_eq!(place.offset.to_string(), value, "{name}");
            checked += 1;
        }
        for (name, value) in keys(kernel, "LENGTH") {
            let Some((outer, member)) = name.split_once('.') else {
                continue;
            };
            let id = structure(btf, outer).unwrap().unwrap();
            let place = find_member(btf, id, member).unwrap().unwrap();
            let (_, found) = resolve(btf, place.type_id).unwrap();
            let Shape::Array(_, count) = found.shape else {
                panic!("{name} is {found:?}")
            };
            assert_eq!(count.to_string(), value, "{name}");
            checked += 1;
        }
        for (name, value) in keys(kernel, "NUMBER") {
            if let Some(number) = btf.enumerator(name).unwrap() {
                assert_eq!(number.to_string(), value, "{name}");
                checked += 1;
            }
        }
        assert!(checked > 40, "{checked} keys compared");
    });
}

#[test]
fn symbols_are_inside_the_kernel_and_resolve_back_to_addresses() {
    with_sample(|_, symbols, btf| {
        let stext = symbols.find("_stext").unwrap();
        let (found, distance) = symbols
            .at(VirtAddr(symbols.find("schedule").unwrap().address.0 + 5))
            .unwrap();
        assert_eq!((found.name, distance), ("schedule", 5));
        assert!(found.address > stext.address);
        assert_eq!(symbols.find("no such symbol"), None);

        let task = btf.find(Named::Struct, "task_struct").unwrap().unwrap();
        let comm = find_member(btf, task, "comm").unwrap().unwrap();
        assert_eq!(size_of(btf, comm.type_id).unwrap(), Some(16));
        // In an anonymous struct in an anonymous union.
        let page = btf.find(Named::Struct, "page").unwrap().unwrap();
        let lru = find_member(btf, page, "lru").unwrap().unwrap();
        assert_eq!(lru.offset, 8);
        // A bit field.
        let jobctl = find_member(btf, task, "sched_migrated").unwrap().unwrap();
        assert_eq!(jobctl.bits.map(|(_, count)| count), Some(1));
        assert_eq!(find_member(btf, task, "no such member").unwrap(), None);
        let written = parse_type(btf, "task_struct*[4]").unwrap().unwrap();
        assert_eq!(
            (written.id, &written.layers[..]),
            (task, &[None, Some(4)][..])
        );
        assert_eq!(parse_type(btf, "task_struct[x]").unwrap(), None);
        assert_eq!(parse_type(btf, "no_such_struct").unwrap(), None);
    });
}
