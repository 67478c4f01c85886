//! Reads pages out of a vmdump through the cache that all its readers share.

use std::ops::Range;
use std::sync::Arc;

use bigiron_format::PageFrame;
use bigiron_format::vmdump::Chunk;

use super::PageReader;
use super::cache::{PageCache, Unpacked};
use super::pages::SharedPages;
use super::vmdump::VmdumpSource;
use super::vmdump_reader::{Place, Unpacker};
use crate::error::SourceError;

/// The cache of a vmdump: each chunk by its position in the core.
pub(super) type ChunkCache = PageCache<Chunk>;

/// One helper's reader: a codec context of its own, and the chunk that it used last.
pub(super) struct CachedVmdumpReader<'a> {
    source: &'a VmdumpSource,
    cache: &'a ChunkCache,
    unpacker: Unpacker<'a>,
    last: Option<Arc<Unpacked<Chunk>>>,
    /// Behind what was read last, in the core.
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

    /// The chunk with the page, and which bytes of it are the pages from there on.
    fn find(
        &mut self,
        first: PageFrame,
        count: usize,
    ) -> Result<(&Arc<Unpacked<Chunk>>, Range<usize>), SourceError> {
        let place = Place::of(self.source, first)?;
        // The last one goes before another one is decompressed.
        let last = self.last.take().filter(|last| place.is_in(&last.meta));
        let last = match last {
            Some(last) => last,
            None => self.load(&place)?,
        };
        let last = self.last.insert(last);
        let range = place.run(self.source, &last.meta, count)?;
        self.next = place.position + range.len() as u64;
        Ok((last, range))
    }

    fn load(&mut self, place: &Place) -> Result<Arc<Unpacked<Chunk>>, SourceError> {
        let goes_on = place.position == self.next;
        let cache = self.cache;
        // Writers divide the core evenly, so that it can be found without the index.
        let header = self.source.header();
        let inside = place.position.saturating_sub(header.memory_offset) % header.chunk_bytes();
        let found = cache.find(place.position - inside, goes_on);
        if let Some(found) = found.filter(|found| place.is_in(&found.meta)) {
            return Ok(found);
        }
        let found = place.find(self.source)?;
        let chunk = found.chunk();
        let unpacker = &mut self.unpacker;
        let mut unpack = || {
            // Bounded by the largest chunk when the index was read.
            let mut buffer = cache.buffer(chunk.len as usize);
            unpacker.unpack(&found, &mut buffer.bytes)?;
            let meta = chunk.clone();
            Ok(Unpacked { meta, buffer })
        };
        let cached = cache.find_or(chunk.position, &mut unpack)?;
        if place.is_in(&cached.meta) {
            return Ok(cached);
        }
        // Two parts of a damaged dump have chunks of one position.
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
