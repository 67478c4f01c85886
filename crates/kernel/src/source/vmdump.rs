//! vmdumps as a source of memory: an ELF core whose bytes come out of chunks,
//! and of which the index knows which pages were dumped.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::LoadSegment;
use bigiron_format::kdump::Utsname;
use bigiron_format::vmdump::{Chunk, ChunkKind, Container, Gap, VmdumpFile};
use bigiron_format::{FormatError, PageFrame, ReadAt, VirtAddr};

use super::elf::{ElfBytes, ElfSource};
use super::file::IoMethod;
use super::vmdump_reader::VmdumpReader;
use super::{MemorySource, PageReader};
use crate::error::SourceError;

/// Parts of the index that are kept in memory, of about 40 KiB each.
const CACHED_PIECES: usize = 16;
/// RAM that a file of any size may claim.
const MOST_WITHOUT_DATA: u64 = 1 << 40;
/// Beyond, RAM may be this many times as large as the file: 1 GiB of excluded
/// pages takes 32 KiB.
const MOST_TIMES_LARGER: u64 = 1 << 16;

/// The chunks of one part of the index.
type Chunks = Arc<Vec<Chunk>>;

/// A vmdump.
pub struct VmdumpSource {
    file: VmdumpFile,
    path: PathBuf,
    /// The core's headers: which page frames its bytes are.
    elf: ElfSource,
    /// Parts of the index, the last used one first.
    pieces: Mutex<Vec<(usize, Chunks)>>,
    damage: Option<String>,
    not_zero: Mutex<Option<(u64, u64)>>,
}

impl VmdumpSource {
    /// Opens a vmdump, called `path` in messages.
    pub fn new(bytes: Box<dyn ReadAt>, path: PathBuf) -> Result<Self, SourceError> {
        let error = |source| SourceError::Format {
            path: path.clone(),
            source,
        };
        let file = VmdumpFile::open(bytes).map_err(error)?;
        let header = file.header();
        let unsupported = |reason: String| SourceError::Unsupported {
            path: path.clone(),
            reason,
        };
        if header.stripe != (0, 1) {
            return Err(unsupported(format!(
                "is file {} of {} of a striped vmdump, which this bigiron cannot read",
                header.stripe.0 + 1,
                header.stripe.1
            )));
        }
        let claimed = header.core_size;
        let size = file.bytes().size();
        if claimed > MOST_WITHOUT_DATA && claimed / MOST_TIMES_LARGER > size {
            return Err(unsupported(format!(
                "its header claims a core of {claimed} bytes, but the file has only {size}: not \
                 even excluded pages of so much fit into it"
            )));
        }
        let core = CoreHeaderBytes {
            headers: file.core_headers().map_err(error)?,
            size: claimed,
        };
        let elf = ElfSource::new(ElfBytes::Other(Box::new(core), path.clone()))?;
        if elf.page_shift() != header.page_shift {
            return Err(unsupported(format!(
                "its header says pages of {} bytes, VMCOREINFO in it pages of {}",
                header.page_size(),
                1_u64 << elf.page_shift()
            )));
        }
        let mut source = Self {
            file,
            path,
            elf,
            pieces: Mutex::new(Vec::new()),
            damage: None,
            not_zero: Mutex::new(None),
        };
        source.damage = source.find_damage();
        Ok(source)
    }

    /// The file.
    pub fn file(&self) -> &VmdumpFile {
        &self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn elf(&self) -> &ElfSource {
        &self.elf
    }

    pub(super) fn error(&self, source: FormatError) -> SourceError {
        SourceError::Format {
            path: self.path.clone(),
            source,
        }
    }

    /// The chunks of a part of the index.
    fn piece(&self, number: usize) -> Result<Chunks, SourceError> {
        let lock = || {
            self.pieces
                .lock()
                .unwrap_or_else(|poison| poison.into_inner())
        };
        {
            let mut pieces = lock();
            if let Some(at) = pieces.iter().position(|piece| piece.0 == number) {
                pieces[..=at].rotate_right(1);
                return Ok(Arc::clone(&pieces[0].1));
            }
        }
        let found = self.file.chunks(number).map_err(|e| self.error(e))?;
        let found = Arc::new(found);
        let mut pieces = lock();
        pieces.truncate(CACHED_PIECES - 1);
        pieces.insert(0, (number, Arc::clone(&found)));
        Ok(found)
    }

    /// The chunk that has the byte at `position` of the core.
    pub(super) fn chunk_at(&self, position: u64) -> Result<Option<(Chunks, usize)>, SourceError> {
        let Some(piece) = self.file.piece_of(position) else {
            return Ok(None);
        };
        let chunks = self.piece(piece)?;
        let behind = chunks.partition_point(|chunk| chunk.position <= position);
        let found = behind.checked_sub(1).filter(|index| {
            let chunk = &chunks[*index];
            position < chunk.end() && chunk.kind != ChunkKind::Headers
        });
        Ok(found.map(|index| (chunks, index)))
    }

    /// Where the next chunk begins behind `position`, which no chunk has.
    fn next_position(&self, position: u64) -> Result<u64, SourceError> {
        let piece = self.file.piece_of(position);
        if let Some(piece) = piece {
            let chunks = self.piece(piece)?;
            let behind = chunks.partition_point(|chunk| chunk.position <= position);
            if let Some(chunk) = chunks.get(behind) {
                return Ok(chunk.position);
            }
        }
        let next = piece.map_or(0, |piece| piece + 1);
        let next = self.file.piece_position(next).unwrap_or(u64::MAX);
        Ok(next.max(position.saturating_add(self.file.header().page_size())))
    }

    /// Where the page at `position` of the core is in physical memory, for people.
    pub fn physical(&self, position: u64) -> Option<u64> {
        let holds = |segment: &&LoadSegment| {
            let offset = position.wrapping_sub(segment.file_offset);
            offset < segment.file_size
        };
        let segment = self.elf.header_segments().iter().find(holds)?;
        Some(segment.physical.0 + (position - segment.file_offset))
    }

    /// Where in memory a gap is, for people.
    pub fn describe_gap(&self, gap: &Gap) -> String {
        let start = gap.start.max(self.file.header().memory_offset);
        match self.physical(start) {
            Some(address) => format!(
                "{} bytes from physical address {address:#x} on",
                gap.end.saturating_sub(start)
            ),
            None => format!("bytes {:#x} to {:#x} of the core", gap.start, gap.end),
        }
    }

    /// A page that was not dumped, or was lost, but is not zero, among the chunks
    /// that were read so far: the offset of its chunk, and where the page is in
    /// the core. The first of them in the core.
    pub fn not_zero(&self) -> Option<(u64, u64)> {
        *self.lock_not_zero()
    }

    fn lock_not_zero(&self) -> MutexGuard<'_, Option<(u64, u64)>> {
        self.not_zero
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Looks at the pages of `chunk` that must be zeros in its `bytes`.
    pub(super) fn look_for_zeros(&self, chunk: &Chunk, bytes: &[u8]) {
        let page_size = self.file.header().page_size();
        let pages = (0_u64..).zip(bytes.chunks_exact(page_size as usize));
        let mut others = pages.filter(|(page, _)| {
            !Chunk::bit(&chunk.dumped, *page) || Chunk::bit(&chunk.lost, *page)
        });
        // Folding whole lines is many times faster than stopping at a byte.
        let is_zero = |page: &[u8]| {
            let mut lines = page.chunks(64);
            lines.all(|line| line.iter().fold(0, |all, byte| all | byte) == 0)
        };
        if let Some((page, _)) = others.find(|(_, bytes)| !is_zero(bytes)) {
            let found = (chunk.offset, chunk.position + page * page_size);
            let mut first = self.lock_not_zero();
            if first.is_none_or(|first| found.1 < first.1) {
                *first = Some(found);
            }
        }
    }

    fn find_damage(&self) -> Option<String> {
        let damage = self.file.damage().map(ToString::to_string);
        let Some(root) = self.file.root() else {
            let gaps = self.file.gaps();
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
            let why = "it has no root at its end: it was cut, or its writer was interrupted";
            return Some(format!("{why}; {what}"));
        };
        if !root.complete {
            return Some(match root.lost {
                0 => "its writer marked it incomplete, as its source was".into(),
                lost => format!("its writer marked it incomplete: it lost {lost} pages"),
            });
        }
        damage
    }
}

/// The front of a core; what is behind comes from chunks.
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

impl MemorySource for VmdumpSource {
    fn kind(&self) -> &'static str {
        match self.file.header().container {
            Container::Zstd => "vmdump",
            Container::Bzip2 => "vmdump in bzip2",
        }
    }

    fn page_shift(&self) -> u32 {
        self.elf.page_shift()
    }

    fn endian(&self) -> Endian {
        self.elf.endian()
    }

    fn machine(&self) -> &str {
        self.elf.machine()
    }

    fn end_frame(&self) -> PageFrame {
        self.elf.end_frame()
    }

    fn notes(&self) -> &[u8] {
        self.elf.notes()
    }

    fn vmcoreinfo_note(&self) -> Option<&[u8]> {
        self.elf.vmcoreinfo_note()
    }

    fn utsname(&self) -> Option<&Utsname> {
        // A cut file in bzip2 has none.
        Some(&self.file.header().utsname).filter(|names| !names.machine().is_empty())
    }

    fn dump_level(&self) -> u8 {
        self.file.header().dump_level & 31
    }

    fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        self.elf.ram(first, bits)
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        bits.clear();
        let shift = self.page_shift();
        for (start, offset, pages) in self.elf.file_ranges(first) {
            let end = offset + (pages << shift);
            let mut position = offset;
            while position < end {
                let Some((chunks, index)) = self.chunk_at(position)? else {
                    position = self.next_position(position)?;
                    continue;
                };
                let chunk = &chunks[index];
                let stop = chunk.end().min(end);
                if chunk.kind == ChunkKind::Pages {
                    for page in
                        (position - chunk.position) >> shift..(stop - chunk.position) >> shift
                    {
                        if Chunk::bit(&chunk.dumped, page) {
                            let at = chunk.position + (page << shift);
                            bits.set(start + ((at - offset) >> shift) as usize);
                        }
                    }
                }
                position = stop;
            }
        }
        Ok(())
    }

    fn next_chunk(&self, first: PageFrame) -> Option<PageFrame> {
        self.elf.next_chunk(first)
    }

    fn virtual_address(&self, frame: PageFrame) -> Option<VirtAddr> {
        self.elf.virtual_address(frame)
    }

    fn segment_address(&self, address: VirtAddr) -> Option<u64> {
        self.elf.segment_address(address)
    }

    fn header_segments(&self) -> &[LoadSegment] {
        self.elf.header_segments()
    }

    fn vmdump(&self) -> Option<&VmdumpSource> {
        Some(self)
    }

    fn reader(&self, _io: IoMethod) -> Box<dyn PageReader + '_> {
        Box::new(VmdumpReader::new(self))
    }
}
