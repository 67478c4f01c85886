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
        let absent = || SourceError::Absent {
            path: source.path().to_owned(),
            frame,
        };
        let (chunks, index) = source.chunk_at(position)?.ok_or_else(absent)?;
        let chunk = &chunks[index];
        if chunk.kind != ChunkKind::Pages {
            return Err(absent());
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
                let made = source.file().decompressor();
                none.insert(made.map_err(|error| source.error(error))?)
            }
        };
        source
            .file()
            .read_chunk(chunk, decompressor, &mut self.packed, &mut bytes)
            .map_err(|error| source.error(error))?;
        source.look_for_zeros(chunk, &bytes);
        let chunk = chunk.clone();
        self.chunks.insert(0, Unpacked { chunk, bytes });
        Ok(())
    }
}

impl PageReader for VmdumpReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let source = self.source;
        let shift = source.file().header().page_shift;
        let absent = || SourceError::Absent {
            path: source.path().to_owned(),
            frame: first,
        };
        let (position, pages) = source.elf().file_position(first).ok_or_else(absent)?;
        self.load(position, first)?;
        let Some(Unpacked { chunk, bytes }) = self.chunks.first() else {
            return Err(absent());
        };
        let page = (position - chunk.position) >> shift;
        if !Chunk::bit(&chunk.dumped, page) {
            return Err(absent());
        }
        if Chunk::bit(&chunk.lost, page) {
            return Err(SourceError::Lost {
                path: source.path().to_owned(),
                frame: first,
            });
        }
        let most = pages.min(count as u64).min((chunk.len >> shift) - page);
        let is_there = |page| Chunk::bit(&chunk.dumped, page) && !Chunk::bit(&chunk.lost, page);
        let end = (page..page + most.max(1))
            .find(|page| !is_there(*page))
            .unwrap_or(page + most.max(1));
        Ok(&bytes[(page << shift) as usize..(end << shift) as usize])
    }
}
