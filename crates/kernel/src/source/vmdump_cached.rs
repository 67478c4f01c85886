//! Reads pages of a vmdump through the shared cache.

use std::ops::Range;
use std::sync::Arc;

use bigiron_format::PageFrame;
use bigiron_format::vmdump::Chunk;

use super::PageReader;
use super::cache::Unpacked;
use super::pages::SharedPages;
use super::vmdump::{ChunkCache, VmdumpSource};
use super::vmdump_reader::{PageLocation, Unpacker};
use crate::error::SourceError;

/// One helper's reader, with its own codec context and most recently used chunk.
pub(super) struct CachedVmdumpReader<'a> {
    source: &'a VmdumpSource,
    cache: &'a ChunkCache,
    unpacker: Unpacker<'a>,
    last: Option<Arc<Unpacked<Chunk>>>,
    /// The position after the last one read.
    next: u64,
}

impl<'a> CachedVmdumpReader<'a> {
    pub(super) fn new(source: &'a VmdumpSource, cache: &'a ChunkCache) -> Self {
        Self {
            source,
            cache,
            unpacker: Unpacker::new(source),
            last: None,
            next: 0,
        }
    }

    /// Returns the chunk with the page, and the byte range of the pages from there on.
    fn find(
        &mut self,
        first: PageFrame,
        count: usize,
    ) -> Result<(&Arc<Unpacked<Chunk>>, Range<usize>), SourceError> {
        let location = PageLocation::of(self.source, first)?;
        // Release the last chunk before decompressing another.
        let last = self.last.take().filter(|last| location.is_in(&last.meta));
        let last = match last {
            Some(last) => last,
            None => self.load(&location)?,
        };
        let last = self.last.insert(last);
        let range = location.run(self.source, &last.meta, count)?;
        self.next = location.position + range.len() as u64;
        Ok((last, range))
    }

    fn load(&mut self, location: &PageLocation) -> Result<Arc<Unpacked<Chunk>>, SourceError> {
        let goes_on = location.position == self.next;
        let cache = self.cache;
        // Writers divide the core evenly, so the chunk's key is known without the index.
        let header = self.source.header();
        let inside = location.position.saturating_sub(header.memory_offset) % header.chunk_bytes();
        let found = cache.find(location.position - inside, goes_on);
        if let Some(found) = found.filter(|found| location.is_in(&found.meta)) {
            return Ok(found);
        }
        let found = location.find(self.source)?;
        let chunk = found.chunk();
        let unpacker = &mut self.unpacker;
        let mut unpack = || {
            // Bounded when the index was read.
            let mut buffer = cache.buffer(chunk.len as usize);
            unpacker.unpack(&found, &mut buffer.bytes)?;
            let meta = chunk.clone();
            Ok(Unpacked { meta, buffer })
        };
        let cached = cache.find_or(chunk.position, &mut unpack)?;
        if location.is_in(&cached.meta) {
            return Ok(cached);
        }
        // Two parts of a damaged dump may have chunks at the same position.
        unpack().map(Arc::new)
    }
}

impl PageReader for CachedVmdumpReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let (chunk, range) = self.find(first, count)?;
        Ok(chunk.buffer.bytes.get(range).unwrap_or_default())
    }

    fn shared(&mut self, first: PageFrame, count: usize) -> Result<SharedPages, SourceError> {
        let (chunk, range) = self.find(first, count)?;
        let chunk = Arc::clone(chunk);
        Ok(SharedPages::new(chunk, range))
    }
}
