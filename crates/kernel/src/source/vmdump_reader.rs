//! Reads pages out of a vmdump.

use std::ops::Range;

use bigiron_format::PageFrame;
use bigiron_format::vmdump::{Chunk, ChunkDecompressor, ChunkKind};

use super::PageReader;
use super::vmdump::VmdumpSource;
use super::vmdump_parts::Found;
use crate::error::SourceError;

/// Decompressed chunks that are kept, at most.
const CACHED_CHUNKS: usize = 4;
/// Bytes of them, but for the last one used.
const CACHED_BYTES: usize = 2 << 20;

/// Where a page is in the core.
pub(super) struct Place {
    frame: PageFrame,
    pub(super) position: u64,
    /// Pages from there on in the same segment.
    pages: u64,
}

impl Place {
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

    /// Whether `chunk` has it.
    pub(super) fn is_in(&self, chunk: &Chunk) -> bool {
        (chunk.position..chunk.end()).contains(&self.position)
    }

    /// The chunk with its bytes.
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

    /// Which bytes of `chunk`, which has it, are the pages from it on: as many of
    /// `count` as are there, follow each other in memory and are in the chunk.
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

/// Decompresses chunks: a codec context and room for packed bytes.
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

    /// Puts the bytes of the chunk into `bytes`.
    pub(super) fn unpack(&mut self, found: &Found, bytes: &mut Vec<u8>) -> Result<(), SourceError> {
        let part = &self.source.parts()[found.part];
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => {
                let made = part.file.decompressor();
                none.insert(made.map_err(|error| part.error(error))?)
            }
        };
        part.file
            .read_chunk(found.chunk(), decompressor, &mut self.packed, bytes)
            .map_err(|error| part.error(error))?;
        self.source.look_for_zeros(found.part, found.chunk(), bytes);
        Ok(())
    }
}

/// One helper's reader: a codec context and decompressed chunks of its own.
pub(super) struct VmdumpReader<'a> {
    source: &'a VmdumpSource,
    unpacker: Unpacker<'a>,
    /// The last used one first.
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

    /// Makes the chunk with the page the first one of those that are kept.
    fn load(&mut self, place: &Place) -> Result<(), SourceError> {
        let holds = |kept: &Unpacked| place.is_in(&kept.chunk);
        if let Some(at) = self.chunks.iter().position(holds) {
            self.chunks[..=at].rotate_right(1);
            return Ok(());
        }
        let found = place.find(self.source)?;
        let chunk = found.chunk();
        // The oldest one's buffer is filled anew.
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
        let place = Place::of(self.source, first)?;
        self.load(&place)?;
        let Some(Unpacked { chunk, bytes }) = self.chunks.first() else {
            return Err(absent(self.source, first));
        };
        Ok(&bytes[place.run(self.source, chunk, count)?])
    }
}
