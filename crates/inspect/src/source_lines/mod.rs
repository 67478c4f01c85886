//! Source files and lines of code, by debug information (DWARF), where that can be found.
//!
//! Nothing else in this crate needs debug information. It is found by build id, read by addr2line
//! and gimli, and mapped into memory, since that of a kernel has hundreds of megabytes.

mod debug_file;
mod relocate;
mod sections;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::modules::Located;
use crate::program::Program;
pub use debug_file::DebugFile;

/// A line of source code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// The function that has it; it may have been inlined into that of the next line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Path of the file where the kernel was built.
    pub file: String,
    /// Line number, from 1 on.
    pub line: u32,
}

/// Formats as `use in /build/faults/crashes.c:52`.
impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.function {
            Some(function) => write!(f, "{}:{} in {function}", self.file, self.line),
            None => write!(f, "{}:{}", self.file, self.line),
        }
    }
}

/// Finds files with debug information.
pub trait FindDebugFile {
    /// Returns the file with a build id, in hexadecimal, and its name: of a module, or of the
    /// kernel of a release.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn find(
        &self,
        build_id: &str,
        release: &str,
        module: Option<&str>,
    ) -> Result<(File, PathBuf), String>;
}

/// A file, and what is added to addresses of the dump.
struct Opened {
    file: DebugFile,
    /// Of the kernel, whose image KASLR moves as a whole. A module has none: each of its sections
    /// has been loaded at a place of its own.
    slide: Option<u64>,
}

/// The debug information of the kernel and each module, or why there is none.
type Known = HashMap<Option<String>, Result<Rc<Opened>, String>>;

/// Source lines of a kernel.
pub struct SourceLines<'f> {
    finder: &'f dyn FindDebugFile,
    files: RefCell<Known>,
}

impl<'f> SourceLines<'f> {
    /// Reads the debug information that `finder` finds.
    pub fn new(finder: &'f dyn FindDebugFile) -> Self {
        Self {
            finder,
            files: RefCell::default(),
        }
    }

    /// Returns the line of an instruction, and those that it was inlined into, innermost first.
    ///
    /// # Errors
    ///
    /// Why the line is not known.
    pub fn at(&self, program: &Program, address: VirtAddr) -> Result<Vec<SourceLine>, String> {
        let located = program.symbol_at(address);
        let located = located.ok_or_else(|| format!("{address} is in no function"))?;
        let opened = self.file(program, located.module)?;
        let file = &opened.file;
        let name = file.name();
        let linked = match located.module {
            None => opened.slide.map(|slide| address.0.wrapping_add(slide)),
            Some(_) => in_module(program, file, &located),
        };
        let linked = linked.ok_or_else(|| format!("{name} does not have {located}"))?;
        let mut lines = file
            .lines(linked)
            .map_err(|error| format!("{name}: {error}"))?;
        let last = lines.last_mut();
        let last = last.ok_or_else(|| format!("{name} has no line for {located}"))?;
        // Debug information does not tell the function of all code.
        let function = || Some(located.symbol.name.to_owned());
        last.function = last.function.take().or_else(function);
        Ok(lines)
    }

    fn file(&self, program: &Program, module: Option<&str>) -> Result<Rc<Opened>, String> {
        let key = module.map(str::to_owned);
        if let Some(known) = self.files.borrow().get(&key) {
            return known.clone();
        }
        let opened = self.open(program, module);
        let opened = opened.map(Rc::new);
        self.files.borrow_mut().insert(key, opened.clone());
        opened
    }

    fn open(&self, program: &Program, module: Option<&str>) -> Result<Opened, String> {
        let info = program.kernel().info();
        let build_id = match module {
            None => info.value("BUILD-ID").map(str::to_owned),
            Some(name) => {
                let found = program.modules().find(name);
                found.and_then(|module| module.build_id.clone())
            }
        };
        let build_id = build_id.ok_or_else(|| match module {
            None => "the dump does not have the kernel's build id".to_owned(),
            Some(name) => format!("the dump does not have the build id of the module {name}"),
        })?;
        let release = info.release().unwrap_or_default();
        let (file, path) = self.finder.find(&build_id, release, module)?;
        let file = DebugFile::open(&file, &path)?;
        let slide = match module {
            None => slide(program, &file),
            Some(_) => None,
        };
        Ok(Opened { file, slide })
    }
}

/// What is added to the address of an instruction of the kernel to have that at which it was linked.
fn slide(program: &Program, file: &DebugFile) -> Option<u64> {
    ["_stext", "_text"].into_iter().find_map(|name| {
        let here = program.symbol(name).ok()?;
        let there = file.symbol(name, None)?;
        Some(there.wrapping_sub(here.0))
    })
}

/// The address in a module's file, in which the function is found by its name.
fn in_module(program: &Program, file: &DebugFile, located: &Located) -> Option<u64> {
    let size = program.symbol_at(located.symbol.address)?.size;
    let name = located.symbol.name;
    // Functions may share a name. A size that is known by the next symbol has padding.
    let start = file
        .symbol(name, size)
        .or_else(|| file.symbol(name, None))?;
    start.checked_add(located.offset)
}
