//! `bigiron sym` and `bigiron type`: symbols and types of the dumped kernel.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use bigiron_format::VirtAddr;
use bigiron_helpers::Stop;
use bigiron_inspect::{Definition, Field, Kind, Located, Program, SourceLine, SourceLines};
use clap::Args;
use serde::Serialize;

use crate::arguments::SourceArguments;
use crate::debug_info::DebugInfoArguments;
use crate::source;
use crate::tell::{on_one_line, print, tell};

/// `bigiron sym`.
#[derive(Debug, Args)]
#[command(after_long_help = SYMBOL_HELP)]
pub struct SymbolArguments {
    /// The dump, in any format; parts of a split or striped one as A,B,C
    dump: PathBuf,
    /// Symbol names or hexadecimal addresses
    #[arg(required = true, value_name = "NAME|ADDRESS")]
    wanted: Vec<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Print source files and lines as well, from debug information
    #[arg(long)]
    lines: bool,
    /// Where source lines come from.
    #[command(flatten)]
    debug_info: DebugInfoArguments,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

const SYMBOL_HELP: &str = "\
Symbols come from the kernel's own table in the dump, kallsyms, which VMCOREINFO names since Linux 6.0. A \
symbol of a module is followed by [MODULE]. Letters are those of nm(1).

Debug information for --lines is found by build id, in --debug-info, /usr/lib/debug, /boot, /lib/modules and \
debuginfod's cache. A function that was inlined comes before the one that it was inlined into.

Exit status: 0 all symbols were found; 1 at least one was not.

Examples:
  bigiron sym vmcore init_task
  bigiron sym vmcore ffffffff81201234 schedule+0x40
  bigiron sym --lines vmcore schedule+0x40
  bigiron sym vmcore virtblk_probe";

/// `bigiron type`.
#[derive(Debug, Args)]
#[command(after_long_help = TYPE_HELP)]
pub struct TypeArguments {
    /// The dump, in any format; parts of a split or striped one as A,B,C
    dump: PathBuf,
    /// Names of structs, unions, enumerations, typedefs, base types or functions
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

const TYPE_HELP: &str = "\
Types come from the kernel's own BTF in the dump (CONFIG_DEBUG_INFO_BTF), and from that of its modules \
(CONFIG_DEBUG_INFO_BTF_MODULES). Each member is preceded by its offset in bytes. A function is shown as its \
prototype; NAME() selects the function if a struct has the same name.

Exit status: 0 all types were found; 1 at least one was not.

Examples:
  bigiron type vmcore page
  bigiron type vmcore 'struct task_struct' 'enum zone_type' gfp_t
  bigiron type vmcore vfs_read virtio_blk";

/// A symbol as JSON.
#[derive(Serialize)]
struct JsonSymbol<'a> {
    name: &'a str,
    address: String,
    kind: char,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    source: Vec<SourceLine>,
}

/// A type as JSON.
#[derive(Serialize)]
struct JsonType<'a> {
    #[serde(flatten)]
    definition: &'a Definition,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
}

/// Prints the requested symbols.
pub fn symbols(arguments: &SymbolArguments) -> anyhow::Result<()> {
    let parts = source::parts_of(&arguments.dump);
    let debug_files = match arguments.lines {
        true => Some(arguments.debug_info.start(&Stop::new())?),
        false => None,
    };
    source::with_kernel(&parts, &arguments.source, |kernel| {
        let program = Program::open_symbols(kernel)?;
        let lines = debug_files.as_ref().map(|files| SourceLines::new(files));
        let mut missing = false;
        for wanted in &arguments.wanted {
            let found = find(&program, wanted);
            for located in &found {
                let source = match &lines {
                    Some(lines) => source_of(&program, lines, located),
                    None => Vec::new(),
                };
                print(&line(located, source, arguments.json)?)?;
            }
            if found.is_empty() {
                tell!("bigiron: {wanted}: not found in the kernel or its modules");
                missing = true;
            }
        }
        if missing {
            warn_of_unknown_modules(&program);
        }
        anyhow::ensure!(!missing, "not all symbols were found");
        Ok(())
    })
}

/// Prints the requested types.
pub fn types(arguments: &TypeArguments) -> anyhow::Result<()> {
    let parts = source::parts_of(&arguments.dump);
    source::with_kernel(&parts, &arguments.source, |kernel| {
        let program = Program::open(kernel)?;
        let mut missing = false;
        for name in &arguments.names {
            match program.define(name)? {
                Some((definition, module)) if arguments.json => {
                    let object = JsonType {
                        definition: &definition,
                        module,
                    };
                    print(&(serde_json::to_string(&object)? + "\n"))?;
                }
                Some((found, module)) => print(&text(&found, module))?,
                None => {
                    tell!("bigiron: {name}: not found in the kernel or its modules");
                    missing = true;
                }
            }
        }
        if missing {
            warn_of_unknown_modules(&program);
            print_unknown_types(&program);
        }
        anyhow::ensure!(!missing, "not all types were found");
        Ok(())
    })
}

/// Warns if modules are unknown, since a missing name may be in one of them.
fn warn_of_unknown_modules(program: &Program) {
    if let Some(reason) = &program.modules().missing {
        tell!("bigiron: not all modules are known: {reason}");
    }
}

/// Reports the modules whose types are unknown, and why.
fn print_unknown_types(program: &Program) {
    let modules = program.modules();
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for module in &modules.list {
        if let Err(reason) = modules.types(program, module) {
            reasons.entry(reason).or_default().push(&module.name);
        }
    }
    for (reason, names) in reasons {
        tell!(
            "bigiron: the types of {} are not known: {reason}",
            names.join(", ")
        );
    }
}

/// Finds all symbols with a name, which may be followed by an offset, or the symbol that
/// contains an address.
fn find<'p>(program: &'p Program, wanted: &'p str) -> Vec<Located<'p>> {
    let (name, offset) = match wanted.split_once('+') {
        Some((name, offset)) => match hexadecimal(offset) {
            Some(offset) => (name, offset),
            None => return Vec::new(),
        },
        None => (wanted, 0),
    };
    let mut named = program.symbols_named(name);
    if !named.is_empty() {
        for found in &mut named {
            found.offset = offset;
        }
        return named;
    }
    let address = hexadecimal(name).and_then(|address| address.checked_add(offset));
    let found = address.and_then(|address| program.symbol_at(VirtAddr(address)));
    found.into_iter().collect()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Returns the source lines of a symbol; says why there are none.
fn source_of(program: &Program, lines: &SourceLines, found: &Located) -> Vec<SourceLine> {
    let address = found.symbol.address.0.wrapping_add(found.offset);
    lines
        .at(program, VirtAddr(address))
        .unwrap_or_else(|reason| {
            tell!("bigiron: {found}: no source line: {reason}");
            Vec::new()
        })
}

fn line(found: &Located, source: Vec<SourceLine>, json: bool) -> anyhow::Result<String> {
    let (symbol, offset) = (found.symbol, found.offset);
    let address = format!("{:016x}", symbol.address.0.wrapping_add(offset));
    let (name, kind) = (symbol.name, symbol.kind);
    if json {
        let object = JsonSymbol {
            name,
            address,
            kind,
            offset,
            module: found.module,
            source,
        };
        return Ok(serde_json::to_string(&object)? + "\n");
    }
    let mut text = format!("{address} ({kind}) {found}\n");
    for line in &source {
        let _ = writeln!(text, "  {}", on_one_line(&line.to_string()));
    }
    Ok(text)
}

/// Formats a definition in C syntax, with the offset of each member.
fn text(found: &Definition, module: Option<&str>) -> String {
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
        Kind::Function => {
            let _ = writeln!(out, "{};", found.name);
        }
        Kind::Other => {}
    }
    let of = module.map(|module| format!("of the module {module}"));
    let what = match (found.kind, found.size) {
        (Kind::Function, _) => None,
        (_, Some(size)) => Some(format!("{}: {size} bytes", found.name)),
        (_, None) => Some(format!("{}: no size", found.name)),
    };
    let notes: Vec<String> = what.into_iter().chain(of).collect();
    if !notes.is_empty() {
        let _ = writeln!(out, "// {}", notes.join(", "));
    }
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
