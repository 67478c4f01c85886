//! A vmlinux: the linked kernel image, with its symbols and, if built with debug information,
//! its types.

use std::path::Path;

use bigiron_format::bytes::Endian;
use bigiron_format::elf::SIGNATURE;
use bigiron_format::{FormatError, ReadAt};

use crate::error::KernelError;
use crate::source::DumpFile;
use crate::symbols::Symbols;
use crate::types::btf::Btf;

const HEADER: usize = 64;
const SECTION_HEADER: u64 = 64;
const SYMBOL: usize = 24;
const SHT_SYMTAB: u32 = 2;
const SHT_NOBITS: u32 = 8;
const SHF_COMPRESSED: u64 = 0x800;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
/// Maximum size of a table; names take 4 MiB, symbols 5 MiB.
const MAX_BYTES: u64 = 1 << 30;
/// Maximum length of a name, KSYM_NAME_LEN. Names may overlap in their table, so that each could
/// be as long as the table.
pub(crate) const MAX_NAME: usize = 512;
/// Memory of a symbol besides its name.
const SYMBOL_MEMORY: u64 = 64;

/// An ELF section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfSection {
    /// Name, such as `.debug_info`.
    pub name: String,
    /// Offset in the file.
    pub offset: u64,
    /// Size in the file, in bytes.
    pub size: u64,
    /// Linked address in the kernel's memory.
    pub address: u64,
    kind: u32,
    flags: u64,
    link: u32,
}

/// A vmlinux.
#[derive(Debug)]
pub struct Vmlinux {
    file: DumpFile,
    endian: Endian,
    sections: Vec<ElfSection>,
}

impl Vmlinux {
    /// Opens the file at `path`, a 64-bit ELF file with section headers.
    pub fn open(path: &Path) -> Result<Self, KernelError> {
        let file = DumpFile::open(path)?;
        let mut header = [0; HEADER];
        let mut vmlinux = Self {
            file,
            endian: Endian::Little,
            sections: Vec::new(),
        };
        vmlinux.fill("the ELF header", 0, &mut header)?;
        if !header.starts_with(&SIGNATURE) || header[4] != 2 {
            return Err(vmlinux.unusable("is not a 64-bit ELF file"));
        }
        if header[5] == 2 {
            vmlinux.endian = Endian::Big;
        }
        let endian = vmlinux.endian;
        let table = endian.u64(&header, 40).unwrap_or(0);
        let half = |offset| endian.u16(&header, offset).unwrap_or(0);
        let (entry_size, count, names) = (half(58), half(60), half(62));
        if u64::from(entry_size) != SECTION_HEADER || count == 0 {
            return Err(vmlinux.unusable(
                "has no section headers; give the vmlinux with debug information, not vmlinuz",
            ));
        }
        let headers = vmlinux.bytes(
            "the section headers",
            table,
            u64::from(count) * SECTION_HEADER,
        )?;
        let mut sections: Vec<(u32, ElfSection)> = Vec::new();
        for entry in headers.chunks_exact(SECTION_HEADER as usize) {
            let word = |offset| endian.u32(entry, offset).unwrap_or(0);
            let long = |offset| endian.u64(entry, offset).unwrap_or(0);
            let section = ElfSection {
                name: String::new(),
                kind: word(4),
                flags: long(8),
                address: long(16),
                offset: long(24),
                size: long(32),
                link: word(40),
            };
            sections.push((word(0), section));
        }
        let strings = match sections.get(usize::from(names)) {
            Some((_, section)) => vmlinux.read(section)?,
            None => Vec::new(),
        };
        vmlinux.sections = sections
            .into_iter()
            .map(|(name, section)| ElfSection {
                name: text_at(&strings, name).into_owned(),
                ..section
            })
            .collect();
        Ok(vmlinux)
    }

    /// Path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Byte order.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the section with that name, if the file has its contents.
    pub fn section(&self, name: &str) -> Option<&ElfSection> {
        self.sections
            .iter()
            .find(|section| section.name == name && section.kind != SHT_NOBITS)
    }

    /// Reads the contents of a section.
    pub fn read(&self, section: &ElfSection) -> Result<Vec<u8>, KernelError> {
        if section.flags & SHF_COMPRESSED != 0 {
            return Err(self.unusable(&format!(
                "has the section {} compressed; `objcopy --decompress-debug-sections` makes a \
                 file that can be read",
                section.name
            )));
        }
        self.bytes("a section", section.offset, section.size)
    }

    /// Fills `buf` from `offset` of the file.
    pub fn fill(&self, what: &'static str, offset: u64, buf: &mut [u8]) -> Result<(), KernelError> {
        let filled = self.file.read_exact_at(what, offset, buf);
        filled.map_err(|error| self.file.error(error).into())
    }

    /// Returns the symbols, at their linked addresses.
    pub fn symbols(&self) -> Result<Symbols, KernelError> {
        let table = self
            .sections
            .iter()
            .find(|section| section.kind == SHT_SYMTAB)
            .ok_or_else(|| self.unusable("has no symbol table: it is stripped"))?;
        let strings = match self.sections.get(table.link as usize) {
            Some(section) => self.read(section)?,
            None => return Err(self.unusable("has no names for its symbols")),
        };
        let mut symbols = Symbols::default();
        for entry in self.read(table)?.chunks_exact(SYMBOL) {
            let section = self.endian.u16(entry, 6).unwrap_or(SHN_UNDEF);
            let name = text_at(&strings, self.endian.u32(entry, 0).unwrap_or(0));
            // Sections and source files are ELF symbols, but not wanted here.
            if section == SHN_UNDEF || name.is_empty() || matches!(entry[4] & 0xf, 3 | 4) {
                continue;
            }
            let kind = match (section, entry[4] & 0xf) {
                (SHN_ABS, _) => b'a',
                (_, 2) => b't',
                _ => b'd',
            };
            let kind = match entry[4] >> 4 {
                0 => kind,
                _ => kind.to_ascii_uppercase(),
            };
            let address = self.endian.u64(entry, 8).unwrap_or(0);
            self.check_memory("a symbol", table.offset, SYMBOL_MEMORY + name.len() as u64)?;
            symbols
                .push(&name, address, kind)
                .ok_or_else(|| self.unusable("has names that are too long"))?;
        }
        Ok(symbols)
    }

    /// Returns up to `len` bytes of the kernel's initialised data at the linked `address`;
    /// `None` if the file has none there.
    pub fn data(&self, address: u64, len: u64) -> Result<Option<Vec<u8>>, KernelError> {
        let holds = |section: &&ElfSection| {
            section.kind != SHT_NOBITS
                && section.address != 0
                && section.address <= address
                && address - section.address < section.size
        };
        let Some(section) = self.sections.iter().find(holds) else {
            return Ok(None);
        };
        let from = address - section.address;
        let offset = section.offset.saturating_add(from);
        let len = len.min(section.size - from);
        self.bytes("the kernel's data", offset, len).map(Some)
    }

    /// Returns the types in its BTF; `None` if it has none.
    pub fn btf(&self) -> Result<Option<Btf>, KernelError> {
        let Some(section) = self.section(".BTF") else {
            return Ok(None);
        };
        Btf::parse(self.read(section)?, self.endian).map(Some)
    }

    /// The error for an unusable file.
    pub fn unusable(&self, reason: &str) -> KernelError {
        KernelError::Debuginfo {
            path: self.path().to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// Returns an error if `what`, described at `offset` of the file, would exceed the memory
    /// limit with `bytes` in memory.
    pub(crate) fn check_memory(
        &self,
        what: &'static str,
        offset: u64,
        bytes: u64,
    ) -> Result<(), KernelError> {
        let checked = FormatError::check_memory(what, offset, bytes);
        checked.map_err(|error| self.file.error(error).into())
    }

    /// Reads `len` bytes from `offset` of the file.
    pub(crate) fn bytes(
        &self,
        what: &'static str,
        offset: u64,
        len: u64,
    ) -> Result<Vec<u8>, KernelError> {
        if len > MAX_BYTES {
            return Err(self.unusable(&format!("has {what} of {len} bytes")));
        }
        let read = self.file.read_vec_at(what, offset, len);
        read.map_err(|error| self.file.error(error).into())
    }
}

/// Returns the name at `offset`; empty if it is longer than any name.
fn text_at(strings: &[u8], offset: u32) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name_at(strings, offset as usize).unwrap_or_default())
}

/// Returns the bytes of the name at `offset`, up to its NUL; `None` if it is longer than any
/// name.
pub(crate) fn name_at(strings: &[u8], offset: usize) -> Option<&[u8]> {
    let text = strings.get(offset..)?;
    let text = &text[..text.len().min(MAX_NAME)];
    let end = text.iter().position(|byte| *byte == 0)?;
    Some(&text[..end])
}
