//! Reads pages of a vmdump.

use std::ops::Range;

use bigiron_format::PageFrame;
use bigiron_format::vmdump::{Chunk, ChunkDecompressor, ChunkKind};

use super::PageReader;
use super::vmdump::VmdumpSource;
use super::vmdump_parts::Found;
use crate::error::SourceError;

/// Maximum number of decompressed chunks kept.
const CACHED_CHUNKS: usize = 4;
/// Maximum number of their bytes, not counting the most recently used one.
const CACHED_BYTES: usize = 2 << 20;

/// The location of a page in the core.
pub(super) struct PageLocation {
    frame: PageFrame,
    pub(super) position: u64,
    /// Consecutive pages in the same segment.
    pages: u64,
}

impl PageLocation {
    pub(super) fn of(source: &VmdumpSource, frame: PageFrame) -> Result<Self, SourceError> {
        let Some((position, pages)) = source.elf().file_position(frame) else {
            return Err(absent(source, frame));
        };
        Ok(Self {
            frame,
            position,
            pages,
        })
    }

    /// Returns true if `chunk` contains it.
    pub(super) fn is_in(&self, chunk: &Chunk) -> bool {
        (chunk.position..chunk.end()).contains(&self.position)
    }

    /// Returns the chunk that contains it.
    pub(super) fn find(&self, source: &VmdumpSource) -> Result<Found, SourceError> {
        let files = source.files();
        match files.chunk_at(self.position)? {
            Some(found) if found.chunk().kind == ChunkKind::Pages => Ok(found),
            Some(_) => Err(absent(source, self.frame)),
            None => Err(match files.lost_up_to(self.position)? {
                Some(_) => lost(source, self.frame),
                None => absent(source, self.frame),
            }),
        }
    }

    /// Returns the byte range in `chunk`, which contains it, of up to `count` pages that are
    /// consecutive in memory.
    pub(super) fn run(
        &self,
        source: &VmdumpSource,
        chunk: &Chunk,
        count: usize,
    ) -> Result<Range<usize>, SourceError> {
        let shift = source.header().page_shift;
        let page = (self.position - chunk.position) >> shift;
        if !Chunk::bit(&chunk.dumped, page) {
            return Err(absent(source, self.frame));
        }
        if Chunk::bit(&chunk.lost, page) {
            return Err(lost(source, self.frame));
        }
        let most = self
            .pages
            .min(count as u64)
            .min((chunk.len >> shift) - page);
        let is_there = |page| Chunk::bit(&chunk.dumped, page) && !Chunk::bit(&chunk.lost, page);
        let end = (page..page + most.max(1))
            .find(|page| !is_there(*page))
            .unwrap_or(page + most.max(1));
        Ok((page << shift) as usize..(end << shift) as usize)
    }
}

/// Decompresses chunks; holds a codec context and a buffer for compressed bytes.
pub(super) struct Unpacker<'a> {
    source: &'a VmdumpSource,
    decompressor: Option<ChunkDecompressor>,
    packed: Vec<u8>,
}

impl<'a> Unpacker<'a> {
    pub(super) fn new(source: &'a VmdumpSource) -> Self {
        Self {
            source,
            decompressor: None,
            packed: Vec::new(),
        }
    }

    /// Decompresses the chunk into `bytes`.
    pub(super) fn unpack(&mut self, found: &Found, bytes: &mut Vec<u8>) -> Result<(), SourceError> {
        let part = &self.source.parts()[found.part];
        let (damaged, offset) = (&self.source.damaged, found.chunk().offset);
        if let Some(error) = damaged.find(found.part, offset) {
            return Err(part.error(error));
        }
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => {
                let made = part.file.decompressor();
                none.insert(made.map_err(|error| part.error(error))?)
            }
        };
        part.file
            .read_chunk(found.chunk(), decompressor, &mut self.packed, bytes)
            .map_err(|error| part.error(damaged.remember(found.part, offset, error)))?;
        self.source.look_for_zeros(found.part, found.chunk(), bytes);
        Ok(())
    }
}

/// One helper's reader, with its own codec context and decompressed chunks.
pub(super) struct VmdumpReader<'a> {
    source: &'a VmdumpSource,
    unpacker: Unpacker<'a>,
    /// Most recently used first.
    chunks: Vec<Unpacked>,
}

/// A chunk and its bytes.
struct Unpacked {
    chunk: Chunk,
    bytes: Vec<u8>,
}

impl<'a> VmdumpReader<'a> {
    pub(super) fn new(source: &'a VmdumpSource) -> Self {
        Self {
            source,
            unpacker: Unpacker::new(source),
            chunks: Vec::new(),
        }
    }

    /// Makes the chunk with the page the first of the kept ones.
    fn load(&mut self, location: &PageLocation) -> Result<(), SourceError> {
        let holds = |kept: &Unpacked| location.is_in(&kept.chunk);
        if let Some(at) = self.chunks.iter().position(holds) {
            self.chunks[..=at].rotate_right(1);
            return Ok(());
        }
        let found = location.find(self.source)?;
        let chunk = found.chunk();
        // The buffer of the oldest one is reused.
        let kept: usize = self.chunks.iter().map(|kept| kept.bytes.len()).sum();
        let full = self.chunks.len() >= CACHED_CHUNKS || kept + chunk.len as usize > CACHED_BYTES;
        let mut bytes = match self.chunks.pop_if(|_| full) {
            Some(oldest) => oldest.bytes,
            None => Vec::new(),
        };
        self.unpacker.unpack(&found, &mut bytes)?;
        let chunk = chunk.clone();
        self.chunks.insert(0, Unpacked { chunk, bytes });
        Ok(())
    }
}

fn absent(source: &VmdumpSource, frame: PageFrame) -> SourceError {
    SourceError::Absent {
        path: source.parts()[0].path.clone(),
        frame,
    }
}

fn lost(source: &VmdumpSource, frame: PageFrame) -> SourceError {
    SourceError::Lost {
        path: source.parts()[0].path.clone(),
        frame,
    }
}

impl PageReader for VmdumpReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let location = PageLocation::of(self.source, first)?;
        self.load(&location)?;
        let Some(Unpacked { chunk, bytes }) = self.chunks.first() else {
            return Err(absent(self.source, first));
        };
        Ok(&bytes[location.run(self.source, chunk, count)?])
    }
}
