//! vmdumps as memory sources: an ELF core in chunks, with an index of the dumped pages.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use bigiron_format::ReadAt;
use bigiron_format::elf::LoadSegment;
use bigiron_format::vmdump::{Chunk, CoreOrder, Gap, VmdumpFile, VmdumpHeader};

use super::HeaderAddresses;
#[cfg(feature = "cache")]
use super::cache::PageCache;
use super::damaged_chunks::DamagedChunks;
use super::elf::{ElfBytes, ElfSource};
use super::vmdump_parts::{VmdumpPart, VmdumpParts};
use crate::error::SourceError;
use crate::vmcoreinfo;

/// Maximum RAM that a file of any size may claim.
const MAX_WITHOUT_DATA: u64 = 1 << 40;
/// Maximum ratio of RAM to file size beyond that: 1 GiB of excluded pages takes 32 KiB.
const MAX_RATIO: u64 = 1 << 16;

/// The cache of a vmdump, keyed by position in the core.
#[cfg(feature = "cache")]
pub(super) type ChunkCache = PageCache<Chunk>;

/// A vmdump: one file, or the parts of a striped one.
pub struct VmdumpSource {
    pub(super) parts: VmdumpParts,
    /// The core's headers, which map its bytes to page frames.
    pub(super) elf: ElfSource,
    pub(super) damage: Option<String>,
    not_zero: Mutex<Option<NotZero>>,
    pub(super) damaged: DamagedChunks,
    #[cfg(feature = "cache")]
    pub(super) cache: Option<ChunkCache>,
}

/// An excluded page that is not zero.
#[derive(Clone, Copy, Debug)]
pub struct NotZero {
    /// Index of its file in [`VmdumpSource::parts`].
    pub part: usize,
    /// Offset of its chunk in the file.
    pub offset: u64,
    /// Its position in the core.
    pub position: u64,
}

impl VmdumpSource {
    /// Opens a vmdump: one file, or parts of a striped one in any order, each with its name for
    /// messages.
    pub fn new(files: Vec<(Box<dyn ReadAt>, PathBuf)>) -> Result<Self, SourceError> {
        let (parts, headers) = VmdumpParts::open(files)?;
        let header = parts.header();
        let path = parts.all()[0].path.clone();
        let unsupported = |reason: String| SourceError::Unsupported {
            path: path.clone(),
            reason,
        };
        let claimed = header.core_size;
        // Missing files are assumed to be as large as the existing ones.
        let sizes = parts.all().iter().map(|part| part.file.bytes().size());
        let size = sizes.max().unwrap_or(0) * u64::from(header.stripe.1);
        if claimed > MAX_WITHOUT_DATA && claimed / MAX_RATIO > size {
            return Err(unsupported(format!(
                "its header claims a core of {claimed} bytes, but the file has only {size}: not \
                 even excluded pages of so much fit into it"
            )));
        }
        let core = CoreHeaderBytes {
            headers,
            size: claimed,
        };
        let mut elf = ElfSource::of_headers(ElfBytes::Other(Box::new(core), path.clone()))?;
        elf.page_shift = header.page_shift;
        if let Ok(Some(info)) = vmcoreinfo::from_note(&elf)
            && let Some(shift) = info.page_shift()
            && shift != header.page_shift
        {
            return Err(unsupported(format!(
                "its header says pages of {} bytes, VMCOREINFO in it pages of {}",
                header.page_size(),
                1_u64 << shift
            )));
        }
        let mut source = Self {
            parts,
            elf,
            damage: None,
            not_zero: Mutex::new(None),
            damaged: DamagedChunks::default(),
            #[cfg(feature = "cache")]
            cache: None,
        };
        source.damage = source.find_damage();
        Ok(source)
    }

    /// The file; the first one of a striped dump.
    pub fn file(&self) -> &VmdumpFile {
        &self.parts.all()[0].file
    }

    /// The given files, by part number.
    pub fn parts(&self) -> &[VmdumpPart] {
        self.parts.all()
    }

    /// The header; those of other parts differ only in the part number.
    pub fn header(&self) -> &VmdumpHeader {
        self.parts.header()
    }

    /// Returns true if no part is missing.
    pub fn has_all_parts(&self) -> bool {
        self.parts.missing().next().is_none()
    }

    /// Returns the number of dumped pages, lost ones included, according to the roots; `None`
    /// if a part has no root or its directory is damaged, so that its chunks may be others.
    pub(super) fn stated_pages(&self) -> Option<u64> {
        if !self.has_all_parts() {
            return None;
        }
        let mut files = self.parts.all().iter().map(|part| &part.file);
        files.try_fold(0_u64, |pages, file| {
            let root = file.root().filter(|_| file.damage().is_none())?;
            pages.checked_add(root.dumped)
        })
    }

    /// Returns true if the writer reached the end of the core, so that what no file has was
    /// written once.
    pub fn was_ended(&self) -> bool {
        self.parts.was_ended()
    }

    /// Iterates over the core.
    pub fn core_order(&self) -> CoreOrder<'_> {
        self.parts.core_order()
    }

    /// The bytes before the core's memory.
    pub fn core_headers(&self) -> Vec<u8> {
        let len = self.header().memory_offset;
        let bytes = self.elf.bytes.read().read_vec_at("the headers", 0, len);
        bytes.unwrap_or_default()
    }

    /// See `Source::set_cache`.
    #[cfg(feature = "cache")]
    pub(super) fn set_cache(&mut self, bytes: u64) {
        let chunk = self.header().chunk_bytes();
        self.cache = ChunkCache::new(bytes, chunk, chunk, chunk);
    }

    pub(super) fn files(&self) -> &VmdumpParts {
        &self.parts
    }

    pub(super) fn elf(&self) -> &ElfSource {
        &self.elf
    }

    /// The physical address of the page at `position` of the core, for messages.
    pub fn physical(&self, position: u64) -> Option<u64> {
        let holds = |segment: &&LoadSegment| {
            let offset = position.wrapping_sub(segment.file_offset);
            offset < segment.file_size
        };
        let segment = self.elf.header_segments().iter().find(holds)?;
        Some(segment.physical.0 + (position - segment.file_offset))
    }

    /// Describes the location of a gap, for messages.
    pub fn describe_gap(&self, gap: &Gap) -> String {
        let start = gap.start.max(self.header().memory_offset);
        match self.physical(start) {
            Some(address) => format!(
                "{} bytes from physical address {address:#x} on",
                gap.end.saturating_sub(start)
            ),
            None => format!("bytes {:#x} to {:#x} of the core", gap.start, gap.end),
        }
    }

    /// An excluded or lost page that is not zero, among the chunks read so far: the first one
    /// in the core.
    pub fn not_zero(&self) -> Option<NotZero> {
        *self.lock_not_zero()
    }

    fn lock_not_zero(&self) -> MutexGuard<'_, Option<NotZero>> {
        self.not_zero
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Checks the pages of `chunk` that must be zero.
    pub(super) fn look_for_zeros(&self, part: usize, chunk: &Chunk, bytes: &[u8]) {
        let page_size = self.header().page_size();
        let pages = (0_u64..).zip(bytes.chunks_exact(page_size as usize));
        let mut others = pages.filter(|(page, _)| {
            !Chunk::bit(&chunk.dumped, *page) || Chunk::bit(&chunk.lost, *page)
        });
        // Folding whole cache lines is many times faster than stopping at the first byte.
        let is_zero = |page: &[u8]| {
            let mut lines = page.chunks(64);
            lines.all(|line| line.iter().fold(0, |all, byte| all | byte) == 0)
        };
        if let Some((page, _)) = others.find(|(_, bytes)| !is_zero(bytes)) {
            let found = NotZero {
                part,
                offset: chunk.offset,
                position: chunk.position + page * page_size,
            };
            let mut first = self.lock_not_zero();
            if first.is_none_or(|first| found.position < first.position) {
                *first = Some(found);
            }
        }
    }

    /// Describes what is missing; for a striped dump, missing parts first.
    fn find_damage(&self) -> Option<String> {
        let missing: Vec<u16> = self.parts.missing().collect();
        if !missing.is_empty() {
            let numbers: Vec<_> = missing.iter().map(|n| (n + 1).to_string()).collect();
            let (what, them) = match missing.len() {
                1 => (format!("part {} of", numbers[0]), "is missing; give it too"),
                _ => (
                    format!("parts {} of", numbers.join(", ")),
                    "are missing; give them too",
                ),
            };
            return Some(format!("{what} {} {them}", self.header().stripe.1));
        }
        self.parts.all().iter().find_map(|part| {
            let damage = self.damage_of(&part.file)?;
            match self.header().is_striped() {
                true => Some(format!("{}: {damage}", part.path.display())),
                false => Some(damage),
            }
        })
    }

    fn damage_of(&self, file: &VmdumpFile) -> Option<String> {
        let Some(root) = file.root() else {
            let why = "it has no root at its end: it was cut, or its writer was interrupted";
            if self.header().is_striped() {
                return Some(why.to_owned());
            }
            let gaps = file.gaps();
            let missing: Vec<_> = gaps
                .iter()
                .take(3)
                .map(|gap| self.describe_gap(gap))
                .collect();
            let more = match gaps.len().saturating_sub(3) {
                0 => String::new(),
                more => format!(", and {more} more parts"),
            };
            let what = match missing.len() {
                0 => "all pages are there".to_owned(),
                _ => format!("missing: {}{more}", missing.join(", ")),
            };
            return Some(format!("{why}; {what}"));
        };
        if !root.complete {
            // The mark is about the whole dump, the counts are about the file.
            let roots = self.parts.all().iter().filter_map(|part| part.file.root());
            let lost: u64 = roots.map(|root| root.lost).fold(0, u64::saturating_add);
            return Some(match lost {
                0 => "it is marked as incomplete: its source was, or it was repaired".into(),
                lost => format!("it is marked as incomplete: its writer lost {lost} pages"),
            });
        }
        file.damage().map(ToString::to_string)
    }
}

/// The start of a core; the rest is in chunks.
struct CoreHeaderBytes {
    headers: Vec<u8>,
    size: u64,
}

impl ReadAt for CoreHeaderBytes {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.headers.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.size
    }
}
