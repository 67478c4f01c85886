//! Reads pages out of a vmdump.

use bigiron_format::PageFrame;
use bigiron_format::vmdump::{Chunk, ChunkDecompressor, ChunkKind};

use super::PageReader;
use super::vmdump::VmdumpSource;
use crate::error::SourceError;

/// Decompressed chunks that are kept, at most.
const CACHED_CHUNKS: usize = 4;
/// Bytes of them, but for the last one used.
const CACHED_BYTES: usize = 2 << 20;

/// One helper's reader: a codec context and decompressed chunks of its own.
pub(super) struct VmdumpReader<'a> {
    source: &'a VmdumpSource,
    decompressor: Option<ChunkDecompressor>,
    packed: Vec<u8>,
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
            decompressor: None,
            packed: Vec::new(),
            chunks: Vec::new(),
        }
    }

    /// Makes the chunk with the byte at `position` of the core the first one
    /// of those that are kept.
    fn load(&mut self, position: u64, frame: PageFrame) -> Result<(), SourceError> {
        let holds = |kept: &Unpacked| (kept.chunk.position..kept.chunk.end()).contains(&position);
        if let Some(at) = self.chunks.iter().position(holds) {
            self.chunks[..=at].rotate_right(1);
            return Ok(());
        }
        let source = self.source;
        let Some(found) = source.files().chunk_at(position)? else {
            return Err(match source.files().lost_up_to(position)? {
                Some(_) => lost(source, frame),
                None => absent(source, frame),
            });
        };
        let part = &source.parts()[found.part];
        let chunk = &found.chunks[found.index];
        if chunk.kind != ChunkKind::Pages {
            return Err(absent(source, frame));
        }
        // The oldest one's buffer is filled anew.
        let kept: usize = self.chunks.iter().map(|kept| kept.bytes.len()).sum();
        let full = self.chunks.len() >= CACHED_CHUNKS || kept + chunk.len as usize > CACHED_BYTES;
        let mut bytes = match self.chunks.pop_if(|_| full) {
            Some(oldest) => oldest.bytes,
            None => Vec::new(),
        };
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => {
                let made = part.file.decompressor();
                none.insert(made.map_err(|error| part.error(error))?)
            }
        };
        part.file
            .read_chunk(chunk, decompressor, &mut self.packed, &mut bytes)
            .map_err(|error| part.error(error))?;
        source.look_for_zeros(found.part, chunk, &bytes);
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
        let source = self.source;
        let shift = source.header().page_shift;
        let Some((position, pages)) = source.elf().file_position(first) else {
            return Err(absent(source, first));
        };
        self.load(position, first)?;
        let Some(Unpacked { chunk, bytes }) = self.chunks.first() else {
            return Err(absent(source, first));
        };
        let page = (position - chunk.position) >> shift;
        if !Chunk::bit(&chunk.dumped, page) {
            return Err(absent(source, first));
        }
        if Chunk::bit(&chunk.lost, page) {
            return Err(lost(source, first));
        }
        let most = pages.min(count as u64).min((chunk.len >> shift) - page);
        let is_there = |page| Chunk::bit(&chunk.dumped, page) && !Chunk::bit(&chunk.lost, page);
        let end = (page..page + most.max(1))
            .find(|page| !is_there(*page))
            .unwrap_or(page + most.max(1));
        Ok(&bytes[(page << shift) as usize..(end << shift) as usize])
    }
}
