//! A file with debug information: a vmlinux, or a module.

use std::fs::File;
use std::path::{Path, PathBuf};

use addr2line::Context;
use gimli::{Dwarf, EndianSlice, RunTimeEndian};
use memmap2::Mmap;
use object::{Object, ObjectSymbol, SymbolKind};
use self_cell::self_cell;

use super::SourceLine;
use super::relocate::Layout;
use super::sections::Sections;

/// Maximum number of functions that were inlined into each other.
const MAX_LINES: usize = 64;

type Lines<'a> = Context<EndianSlice<'a, RunTimeEndian>>;

self_cell! {
    struct Parsed {
        owner: Sections,
        #[not_covariant]
        dependent: Lines,
    }
}

/// A file with debug information.
pub struct DebugFile {
    parsed: Parsed,
    path: PathBuf,
}

impl DebugFile {
    /// Reads which units the file has.
    ///
    /// # Errors
    ///
    /// The file is not an ELF file, is damaged, or has no debug information; with its name.
    pub fn open(file: &File, path: &Path) -> Result<Self, String> {
        // SAFETY: what others write to the file while it is mapped may change the bytes, and no
        // value in them is relied on: all are checked where they are used. If the file is cut
        // short, access to it ends the process by SIGBUS.
        let map = unsafe { Mmap::map(file) };
        let map = map.map_err(|error| format!("{}: {error}", path.display()))?;
        let parsed = Self::parse(map, path);
        Ok(Self {
            parsed: parsed.map_err(|error| format!("{}: {error}", path.display()))?,
            path: path.to_owned(),
        })
    }

    fn parse(map: Mmap, path: &Path) -> Result<Parsed, String> {
        let sections = Sections::of(map, path)?;
        if sections.get(gimli::SectionId::DebugInfo).is_empty() {
            return Err("has no debug information".into());
        }
        Parsed::try_new(sections, |sections| {
            let dwarf = Dwarf::load(|id| Ok::<_, gimli::Error>(sections.get(id)));
            dwarf
                .and_then(Context::from_dwarf)
                .map_err(|error| error.to_string())
        })
    }

    /// Name of the file.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns the address of the only function or mark in the code with a name, and if it is given
    /// with that size.
    pub fn symbol(&self, name: &str, size: Option<u64>) -> Option<u64> {
        let file = object::File::parse(self.parsed.borrow_owner().file()).ok()?;
        let relocatable = file.kind() == object::ObjectKind::Relocatable;
        let layout = relocatable.then(|| Layout::of(&file));
        let mut found = file.symbols().filter(|symbol| {
            symbol.name() == Ok(name)
                && symbol.is_definition()
                && matches!(
                    symbol.kind(),
                    SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown
                )
                && size.is_none_or(|size| symbol.size() == size)
        });
        let symbol = found.next()?;
        let base = layout.map_or(0, |layout| layout.base(symbol.section_index()));
        let is_only = found.next().is_none();
        is_only.then(|| base.wrapping_add(symbol.address()))
    }

    /// Returns the lines of an instruction, innermost first.
    ///
    /// # Errors
    ///
    /// The debug information is damaged.
    pub fn lines(&self, address: u64) -> Result<Vec<SourceLine>, String> {
        self.parsed.with_dependent(|_, context| {
            let frames = context.find_frames(address).skip_all_loads();
            let mut frames = frames.map_err(|error| error.to_string())?;
            let mut lines = Vec::new();
            while let Some(frame) = frames.next().map_err(|error| error.to_string())? {
                let function = frame.function.and_then(|function| {
                    let name = function.raw_name().ok()?;
                    Some(name.into_owned())
                });
                let place = frame
                    .location
                    .and_then(|place| Some((place.file?, place.line?)));
                if let Some((file, line)) = place {
                    lines.push(SourceLine {
                        function,
                        file: file.to_owned(),
                        line,
                    });
                }
                if lines.len() == MAX_LINES {
                    break;
                }
            }
            Ok(lines)
        })
    }
}
