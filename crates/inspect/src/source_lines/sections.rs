//! The sections of a file with debug information.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use gimli::{EndianSlice, RunTimeEndian, SectionId};
use memmap2::Mmap;
use object::{CompressionFormat, File, Object, ObjectKind, ObjectSection};

use super::relocate::{Layout, relocated};

/// The sections that line numbers need.
const NEEDED: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// The bytes of a section.
enum Bytes {
    /// As they are in the file.
    Mapped(Range<usize>),
    /// With their relocations applied.
    Relocated(Vec<u8>),
}

/// The sections of a file, mapped into memory.
pub struct Sections {
    map: Mmap,
    found: HashMap<&'static str, Bytes>,
    endian: RunTimeEndian,
}

impl Sections {
    /// Finds the sections.
    ///
    /// # Errors
    ///
    /// The file is damaged, or a section is compressed.
    pub fn of(map: Mmap, path: &Path) -> Result<Self, String> {
        let file = File::parse(&*map).map_err(|error| error.to_string())?;
        let layout = (file.kind() == ObjectKind::Relocatable).then(|| Layout::of(&file));
        let mut found = HashMap::new();
        for name in NEEDED.map(|id| id.name()) {
            let Some(section) = file.section_by_name(name) else {
                continue;
            };
            let range = section
                .compressed_file_range()
                .map_err(|error| error.to_string())?;
            if range.format != CompressionFormat::None {
                return Err(format!(
                    "has the section {name} compressed; `objcopy --decompress-debug-sections {}` \
                     makes a file that can be read",
                    path.display()
                ));
            }
            let bytes = match &layout {
                Some(layout) => Bytes::Relocated(relocated(&file, &section, layout)?),
                None => Bytes::Mapped(mapped(range.offset, range.uncompressed_size, map.len())?),
            };
            found.insert(name, bytes);
        }
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        Ok(Self { map, found, endian })
    }

    /// The file.
    pub fn file(&self) -> &[u8] {
        &self.map
    }

    /// The bytes of a section; none if the file does not have it.
    pub fn get(&self, id: SectionId) -> EndianSlice<'_, RunTimeEndian> {
        let bytes = match self.found.get(id.name()) {
            Some(Bytes::Mapped(range)) => self.map.get(range.clone()).unwrap_or_default(),
            Some(Bytes::Relocated(bytes)) => bytes,
            None => &[],
        };
        EndianSlice::new(bytes, self.endian)
    }
}

fn mapped(offset: u64, size: u64, len: usize) -> Result<Range<usize>, String> {
    let start = usize::try_from(offset).ok();
    let end = offset
        .checked_add(size)
        .and_then(|end| usize::try_from(end).ok());
    let range = start.zip(end).map(|(start, end)| start..end);
    range
        .filter(|range| range.end <= len)
        .ok_or_else(|| format!("has a section at {offset:#x}, behind its end"))
}
