//! `bigiron sym` and `bigiron type`: the kernel's own names for its memory.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use bigiron_format::VirtAddr;
use bigiron_inspect::{Definition, Field, Kind, define};
use bigiron_kernel::Kernel;
use bigiron_kernel::symbols::{Symbol, Symbols, kallsyms};
use bigiron_kernel::types::btf::{self, Btf};
use clap::Args;
use serde::Serialize;

use super::source;
use crate::arguments::SourceArguments;
use crate::tell::{print, tell};

/// `bigiron sym`.
#[derive(Debug, Args)]
#[command(after_long_help = SYMBOL_HELP)]
pub struct SymbolArguments {
    /// The dump, in any format; parts of a split or striped one as A,B,C
    dump: PathBuf,
    /// Names, or addresses in hexadecimal
    #[arg(required = true, value_name = "NAME|ADDRESS")]
    wanted: Vec<String>,
    /// One JSON object on each line
    #[arg(long)]
    json: bool,
    /// How the source is read.
    #[command(flatten)]
    source: SourceArguments,
}

const SYMBOL_HELP: &str = "\
The table is the kernel's own, kallsyms, out of the dump; VMCOREINFO names it since Linux 6.0. Symbols \
of modules are not in it. Letters are those of nm(1).

Exit status: 0 all were found; 1 one was not.

Examples:
  bigiron sym vmcore init_task
  bigiron sym vmcore ffffffff81201234 schedule+0x40";

/// `bigiron type`.
#[derive(Debug, Args)]
#[command(after_long_help = TYPE_HELP)]
pub struct TypeArguments {
    /// The dump, in any format; parts of a split or striped one as A,B,C
    dump: PathBuf,
    /// Structs, unions, enumerations, typedefs or base types
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// One JSON object on each line
    #[arg(long)]
    json: bool,
    /// How the source is read.
    #[command(flatten)]
    source: SourceArguments,
}

const TYPE_HELP: &str = "\
The types are the kernel's own, BTF, out of the dump (CONFIG_DEBUG_INFO_BTF). In front of each member is its \
offset in bytes.

Exit status: 0 all were found; 1 one was not.

Examples:
  bigiron type vmcore page
  bigiron type vmcore 'struct task_struct' 'enum zone_type' gfp_t";

/// A symbol for programs.
#[derive(Serialize)]
struct JsonSymbol<'a> {
    name: &'a str,
    address: String,
    kind: char,
    offset: u64,
}

/// Prints the symbols that were asked for.
pub fn symbols(arguments: &SymbolArguments) -> anyhow::Result<()> {
    let parts = source::parts_of(&arguments.dump);
    source::with_kernel(&parts, &arguments.source, |kernel| {
        let symbols = own_symbols(kernel)?;
        let mut missing = false;
        for wanted in &arguments.wanted {
            let found = find(&symbols, wanted);
            for (symbol, offset) in &found {
                print(&line(symbol, *offset, arguments.json)?)?;
            }
            if found.is_empty() {
                tell!(
                    "bigiron: {wanted}: the kernel has no such symbol; those of modules are not looked at"
                );
                missing = true;
            }
        }
        anyhow::ensure!(!missing, "not all symbols were found");
        Ok(())
    })
}

/// Prints the types that were asked for.
pub fn types(arguments: &TypeArguments) -> anyhow::Result<()> {
    let parts = source::parts_of(&arguments.dump);
    source::with_kernel(&parts, &arguments.source, |kernel| {
        let btf = own_types(kernel)?;
        let mut missing = false;
        for name in &arguments.names {
            match define(&btf, name)? {
                Some(found) if arguments.json => print(&(serde_json::to_string(&found)? + "\n"))?,
                Some(found) => print(&text(&found))?,
                None => {
                    tell!(
                        "bigiron: {name}: the kernel has no such type; those of modules are not looked at"
                    );
                    missing = true;
                }
            }
        }
        anyhow::ensure!(!missing, "not all types were found");
        Ok(())
    })
}

fn own_symbols(kernel: &Kernel) -> anyhow::Result<Symbols> {
    kallsyms::read(kernel)?.context(
        "the kernel's symbols are not known: VMCOREINFO names no kallsyms (Linux 6.0 and later do)",
    )
}

fn own_types(kernel: &Kernel) -> anyhow::Result<Btf> {
    btf::from_memory(kernel, &own_symbols(kernel)?)?
        .context("the kernel's types are not known: it has no BTF (CONFIG_DEBUG_INFO_BTF)")
}

/// All symbols of a name, which may have an offset behind it, or the one that an
/// address lies in.
fn find<'a>(symbols: &'a Symbols, wanted: &'a str) -> Vec<(Symbol<'a>, u64)> {
    let (name, offset) = match wanted.split_once('+') {
        Some((name, offset)) => match hexadecimal(offset) {
            Some(offset) => (name, offset),
            None => return Vec::new(),
        },
        None => (wanted, 0),
    };
    let named: Vec<_> = symbols.named(name).map(|symbol| (symbol, offset)).collect();
    if !named.is_empty() {
        return named;
    }
    let address = hexadecimal(name).and_then(|address| address.checked_add(offset));
    let found = address.and_then(|address| symbols.at(VirtAddr(address)));
    found.into_iter().collect()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

fn line(symbol: &Symbol, offset: u64, json: bool) -> anyhow::Result<String> {
    let address = format!("{:016x}", symbol.address.0.wrapping_add(offset));
    let (name, kind) = (symbol.name, symbol.kind);
    if json {
        let object = JsonSymbol {
            name,
            address,
            kind,
            offset,
        };
        return Ok(serde_json::to_string(&object)? + "\n");
    }
    let behind = if offset == 0 {
        String::new()
    } else {
        format!("+{offset:#x}")
    };
    Ok(format!("{address} ({kind}) {name}{behind}\n"))
}

/// A definition as C has it, with the offset of each member in front.
fn text(found: &Definition) -> String {
    let mut out = String::new();
    if let Some(behind) = &found.stands_for {
        let _ = writeln!(out, "typedef {behind} {};", found.name);
    }
    match found.kind {
        Kind::Struct | Kind::Union => {
            let _ = writeln!(out, "{} {{", found.name);
            fields(&mut out, &found.members, 1);
            out.push_str("};\n");
        }
        Kind::Enumeration => {
            let _ = writeln!(out, "{} {{", found.name);
            for (name, value) in &found.values {
                let _ = writeln!(out, "    {name} = {value},");
            }
            out.push_str("};\n");
        }
        Kind::Other => {}
    }
    let size = found.size.map(|size| format!("{size} bytes"));
    let _ = writeln!(
        out,
        "// {}: {}",
        found.name,
        size.unwrap_or("no size".into())
    );
    out
}

fn fields(out: &mut String, members: &[Field], depth: usize) {
    let indent = "    ".repeat(depth);
    for member in members {
        let _ = write!(out, "/* {:5} */{indent}", member.offset);
        if member.members.is_empty() {
            let bits = member
                .bits
                .map(|(first, bits)| format!(" : {bits}; // from bit {first}"));
            let _ = writeln!(
                out,
                "{}{}",
                member.declaration,
                bits.as_deref().unwrap_or(";")
            );
            continue;
        }
        let kind = if member.is_union { "union" } else { "struct" };
        let _ = writeln!(out, "{kind} {{");
        fields(out, &member.members, depth + 1);
        let name = member
            .declaration
            .strip_prefix(kind)
            .unwrap_or("")
            .trim_start();
        let blank = if name.is_empty() { "" } else { " " };
        let _ = writeln!(out, "           {indent}}}{blank}{name};");
    }
}
