//! `bigiron info --symbols-for`: what to type to open the dump in another program, with the debug
//! information that is found.

use std::path::{Path, PathBuf};

use bigiron_inspect::{FindDebugFile, Program};
use bigiron_kernel::Kernel;
use clap::ValueEnum;

use crate::debug_info::DebugFiles;

/// Stands for the kernel's debug information where that was not found.
const UNKNOWN: &str = "vmlinux";

/// A program that opens dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// The crash utility
    Crash,
    /// drgn
    Drgn,
    /// gdb, for an ELF core
    Gdb,
}

/// The files that were found.
struct Symbols {
    kernel: Result<PathBuf, String>,
    /// Modules by name.
    modules: Vec<(String, PathBuf)>,
    /// Number of modules without.
    without: usize,
}

/// Returns the commands; lines with a number sign are remarks.
pub fn commands(tool: Tool, dump: &[PathBuf], kernel: &Kernel, files: &DebugFiles) -> String {
    let symbols = Symbols::find(kernel, files);
    let mut lines = Vec::new();
    if let Err(reason) = &symbols.kernel {
        lines.push(format!("# {reason}"));
        if let Some(build_id) = kernel.info().value("BUILD-ID") {
            lines.push(format!("# debuginfod-find debuginfo {build_id}"));
        }
    }
    if symbols.without > 0 {
        let count = symbols.without;
        lines.push(format!("# {count} modules have no debug information here"));
    }
    let format = kernel.source().kind();
    let dump = match (tool, dump) {
        (_, [one]) if is_opened_by(tool, format) => quoted(one),
        (_, dump) => {
            let (made, form) = match tool {
                Tool::Gdb => ("vmcore.elf", "elf"),
                Tool::Crash | Tool::Drgn => ("vmcore.kdump", "kdump"),
            };
            let parts: Vec<String> = dump.iter().map(|part| quoted(part)).collect();
            lines.push(format!(
                "bigiron dump -d 0 -f {form} {} {made}",
                parts.join(" ")
            ));
            made.to_owned()
        }
    };
    let unknown = || PathBuf::from(UNKNOWN);
    let vmlinux = quoted(&symbols.kernel.unwrap_or_else(|_| unknown()));
    let modules = symbols.modules.iter();
    match tool {
        Tool::Crash => {
            lines.push(format!("crash {vmlinux} {dump}"));
            lines.extend(modules.map(|(name, path)| format!("mod -s {name} {}", quoted(path))));
        }
        Tool::Drgn => {
            let modules: String = modules
                .map(|(_, path)| format!(" -s {}", quoted(path)))
                .collect();
            lines.push(format!("drgn -c {dump} -s {vmlinux}{modules}"));
        }
        Tool::Gdb => lines.push(format!("gdb {vmlinux} {dump}")),
    }
    lines.join("\n") + "\n"
}

/// Returns true if a program reads dumps of a format.
fn is_opened_by(tool: Tool, format: &str) -> bool {
    match tool {
        Tool::Gdb => format.contains("ELF"),
        Tool::Crash | Tool::Drgn => format.contains("ELF") || format.starts_with("kdump"),
    }
}

impl Symbols {
    fn find(kernel: &Kernel, files: &DebugFiles) -> Self {
        let release = kernel.info().release().unwrap_or_default();
        let build_id = kernel.info().value("BUILD-ID");
        let of_kernel = match build_id {
            Some(build_id) => files.find(build_id, release, None).map(|(_, path)| path),
            None => Err("the dump does not have the kernel's build id".into()),
        };
        let mut found = Self {
            kernel: of_kernel,
            modules: Vec::new(),
            without: 0,
        };
        let Ok(program) = Program::open(kernel) else {
            return found;
        };
        for module in &program.modules().list {
            let build_id = module.build_id.as_deref();
            let file = build_id.and_then(|build_id| {
                let file = files.find(build_id, release, Some(&module.name));
                file.ok()
            });
            match file {
                Some((_, path)) => found.modules.push((module.name.clone(), path)),
                None => found.without += 1,
            }
        }
        found
    }
}

/// Formats a path for the shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-./:=@_~,".contains(c);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_one_word_for_the_shell() {
        assert_eq!(
            quoted(Path::new("/var/crash/vmcore.0")),
            "/var/crash/vmcore.0"
        );
        assert_eq!(quoted(Path::new("it's a; dump")), r"'it'\''s a; dump'");
    }
}
