//! Prints the kernel's own names, to hold them against what other tools say:
//! `names DUMP symbols|types [VMLINUX]`, by kallsyms and BTF in the dump, or by
//! the symbol table and the DWARF of VMLINUX.

#![allow(clippy::expect_used, reason = "a tool that cannot go on should panic")]

use std::io::Write;
use std::path::Path;

use bigiron_kernel::symbols::{Symbols, kallsyms};
use bigiron_kernel::types::{Named, Shape, TypeId, TypeTable, btf};
use bigiron_kernel::vmlinux::Vmlinux;
use bigiron_kernel::{IoMethod, Kernel, Source};

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [dump, what, rest @ ..] = &arguments[..] else {
        panic!("usage: names DUMP symbols|types [VMLINUX]");
    };
    let source = Source::open(&[dump.into()]).expect("a dump");
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).expect("a kernel");
    let vmlinux = rest
        .first()
        .map(|path| Vmlinux::open(Path::new(path)).expect("a vmlinux"));
    let symbols = match &vmlinux {
        Some(vmlinux) => vmlinux.symbols().expect("a symbol table"),
        None => kallsyms::read(&kernel)
            .expect("whole kallsyms")
            .expect("kallsyms"),
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if what == "symbols" {
        print_symbols(&symbols, &mut out);
        return;
    }
    let btf = match &vmlinux {
        Some(vmlinux) => vmlinux.btf(),
        None => btf::from_memory(&kernel, &symbols),
    };
    let btf = btf.expect("whole BTF").expect("BTF");
    #[cfg(feature = "dwarf")]
    if let Some(vmlinux) = &vmlinux {
        use bigiron_kernel::types::dwarf::Dwarf;
        let dwarf = Dwarf::open(vmlinux).expect("whole DWARF").expect("DWARF");
        print_types(&btf, &dwarf, &mut out);
        return;
    }
    print_types(&btf, &btf, &mut out);
}

fn print_symbols(symbols: &Symbols, out: &mut dyn Write) {
    for symbol in symbols.iter() {
        let (address, kind) = (symbol.address.0, symbol.kind);
        writeln!(out, "{address:016x} {kind} {}", symbol.name).expect("an output");
    }
}

/// The structs and unions that BTF names, as `table` has them.
fn print_types(btf: &btf::Btf, table: &dyn TypeTable, out: &mut dyn Write) {
    for id in 1..btf.len() {
        let found = btf.get(TypeId(id)).expect("a type");
        let named = match found.shape {
            Shape::Struct(_) => Named::Struct,
            Shape::Union(_) => Named::Union,
            _ => continue,
        };
        let Some(name) = found.name else { continue };
        let Some(id) = table.find(named, &name).expect("a table") else {
            writeln!(out, "{named:?} {name} is not there").expect("an output");
            continue;
        };
        writeln!(
            out,
            "{named:?} {name} {:?}",
            table.get(id).expect("a type").shape
        )
        .expect("an output");
        for member in table.members(id).expect("members") {
            let member_name = member.name.unwrap_or_default();
            let bits = member.bit_size.unwrap_or(0);
            writeln!(out, "  {member_name} {} {bits}", member.bit_offset).expect("an output");
        }
    }
}
