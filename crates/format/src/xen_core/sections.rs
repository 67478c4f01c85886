//! The sections of the core.

use crate::bytes::{Endian, ReadAt};
use crate::elf::SIGNATURE;
use crate::error::FormatError;

/// Size of a page.
pub(super) const PAGE_SIZE: u64 = 4096;
const EHDR_SIZE: usize = 64;
const SHDR_SIZE: usize = 64;
const ET_CORE: u16 = 4;
/// Maximum number of sections, and size of their names together.
const MAX_SECTIONS: u16 = 64;
const MAX_NAMES: u64 = 4096;

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    name: String,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// All sections, and the machine.
pub(super) struct Sections {
    pub(super) machine: u16,
    sections: Vec<Section>,
}

/// Returns true for a core that has sections and no segments, of which one is a Xen guest's.
pub fn is_xen_core(file: &dyn ReadAt) -> bool {
    Sections::read(file).is_ok_and(|sections| sections.find(".note.Xen").is_some())
}

impl Sections {
    pub(super) fn read(file: &dyn ReadAt) -> Result<Self, FormatError> {
        let endian = Endian::Little;
        let mut header = [0; EHDR_SIZE];
        file.read_exact_at("the ELF header", 0, &mut header)?;
        let half = |at: usize| endian.u16(&header, at).unwrap_or(0);
        let is_core = header.starts_with(&SIGNATURE) && header[4..6] == [2, 1];
        if !is_core || half(16) != ET_CORE || half(56) != 0 {
            return Err(FormatError::unexpected(
                "the ELF header",
                0,
                "a core of 64 bits, little-endian, without segments",
                "another file",
            ));
        }
        let (size, count, names) = (half(58), half(60), half(62));
        if usize::from(size) != SHDR_SIZE || !(1..=MAX_SECTIONS).contains(&count) || names >= count
        {
            return Err(FormatError::unexpected(
                "the sections of the ELF header",
                58,
                format!("1 to {MAX_SECTIONS} section headers of {SHDR_SIZE} bytes"),
                format!("{count} of {size} bytes"),
            ));
        }
        let at = endian.u64(&header, 40).unwrap_or(0);
        let size = u64::from(count) * SHDR_SIZE as u64;
        let table = file.read_vec_at("the section headers", at, size)?;
        let headers: Vec<&[u8]> = table.chunks_exact(SHDR_SIZE).collect();
        let place = |header: &[u8]| {
            let field = |at| endian.u64(header, at).unwrap_or(0);
            (field(24), field(32))
        };
        let (at, size) = place(headers[usize::from(names)]);
        let names = file.read_vec_at("the names of the sections", at, size.min(MAX_NAMES))?;
        let sections = headers.into_iter().map(|header| {
            let (offset, size) = place(header);
            let name = endian.u32(header, 0).unwrap_or(0) as usize;
            let name = names.get(name..).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            Section {
                name: String::from_utf8_lossy(name).into_owned(),
                offset,
                size,
            }
        });
        Ok(Self {
            machine: half(18),
            sections: sections.collect(),
        })
    }

    pub(super) fn find(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    pub(super) fn need(&self, name: &'static str) -> Result<&Section, FormatError> {
        self.find(name).ok_or_else(|| {
            let found = self.sections.iter().map(|section| section.name.as_str());
            let found = found.collect::<Vec<_>>().join(" ");
            FormatError::unexpected("the sections", 40, name, found)
        })
    }
}
