//! Reads pages of a kdump-compressed dump through the shared cache.

use std::ops::Range;
use std::sync::Arc;

use bigiron_format::PageFrame;

use super::PageReader;
use super::cache::Unpacked;
use super::kdump::KdumpSource;
use super::kdump_cache::KdumpCache;
use super::kdump_reader::KdumpReader;
use super::pages::SharedPages;
use crate::error::SourceError;

/// One helper's reader, with its own descriptors, codec contexts and most recently used pages.
pub(super) struct CachedKdumpReader<'a> {
    cache: &'a KdumpCache,
    reader: KdumpReader<'a>,
    /// Consecutive pages, and the page frame of the first one.
    held: Option<(u64, Arc<Unpacked<()>>)>,
    /// The page frame after the last one read.
    next: u64,
    /// Pages to read at once; grows during sequential access.
    ahead: usize,
}

impl<'a> CachedKdumpReader<'a> {
    pub(super) fn new(source: &'a KdumpSource, cache: &'a KdumpCache) -> Self {
        Self {
            cache,
            reader: KdumpReader::new(source),
            held: None,
            next: 0,
            ahead: 1,
        }
    }

    /// Returns cached pages and the byte range of those from `first` on.
    fn find(
        &mut self,
        first: PageFrame,
        count: usize,
    ) -> Result<(&Arc<Unpacked<()>>, Range<usize>), SourceError> {
        let shift = self.cache.page_shift;
        let held = self.held.take().filter(|(from, pages)| {
            let before = first.0.checked_sub(*from);
            before.is_some_and(|before| before < pages.buffer.bytes.len() as u64 >> shift)
        });
        let (from, pages) = match held {
            Some(held) => held,
            None => (first.0, self.load(first, count.max(1))?),
        };
        let start = ((first.0 - from) as usize) << shift;
        let most = count.max(1).saturating_mul(1 << shift);
        let end = start.saturating_add(most).min(pages.buffer.bytes.len());
        self.next = first.0.saturating_add((end - start) as u64 >> shift);
        let (_, pages) = self.held.insert((from, pages));
        Ok((pages, start..end))
    }

    /// Returns page `first`, reading up to `count` or more pages if necessary.
    fn load(&mut self, first: PageFrame, count: usize) -> Result<Arc<Unpacked<()>>, SourceError> {
        let pages = &self.cache.pages;
        let goes_on = first.0 == self.next;
        if let Some(found) = pages.find(first.0, goes_on) {
            return Ok(found);
        }
        self.ahead = match goes_on {
            true => (2 * self.ahead).min(self.cache.most),
            false => 1,
        };
        // Up to the next page that is already cached.
        let wanted = count.max(self.ahead).min(self.cache.most) as u64;
        let mut others = (1..wanted).take_while(|n| !pages.has(first.0.saturating_add(*n)));
        let wanted = others.by_ref().last().map_or(1, |last| last as usize + 1);
        if wanted == 1 {
            return pages.find_or(first.0, || self.read(first, 1));
        }
        let read = self.read(first, wanted)?;
        let single = 1 << self.cache.page_shift;
        for (frame, page) in (first.0..).zip(read.buffer.bytes.chunks_exact(single)) {
            pages.find_or(frame, || {
                let buffer = pages.copy(page);
                Ok::<_, SourceError>(Unpacked { meta: (), buffer })
            })?;
        }
        Ok(Arc::new(read))
    }

    /// Reads at least one and at most `count` pages.
    fn read(&mut self, first: PageFrame, count: usize) -> Result<Unpacked<()>, SourceError> {
        let mut buffer = self.cache.pages.buffer(count << self.cache.page_shift);
        buffer.bytes.clear();
        self.reader.append(first, count, &mut buffer.bytes)?;
        Ok(Unpacked { meta: (), buffer })
    }
}

impl PageReader for CachedKdumpReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let (pages, range) = self.find(first, count)?;
        Ok(pages.buffer.bytes.get(range).unwrap_or_default())
    }

    fn shared(&mut self, first: PageFrame, count: usize) -> Result<SharedPages, SourceError> {
        let (pages, range) = self.find(first, count)?;
        let pages = Arc::clone(pages);
        Ok(SharedPages::new(pages, range))
    }
}
