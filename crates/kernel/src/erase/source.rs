//! A memory source that returns erased bytes, as they are dumped.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::{LoadSegment, Notes};
use bigiron_format::kdump::Utsname;
use bigiron_format::{PageFrame, VirtAddr};

use super::ranges::Blanks;
use crate::error::SourceError;
use crate::source::{CacheUsage, IoMethod, MemorySource, PageReader};

/// Another source with erased ranges.
pub struct ErasedSource<'a> {
    inner: &'a dyn MemorySource,
    blanks: Blanks,
    erase_info: Vec<u8>,
}

impl<'a> ErasedSource<'a> {
    /// Wraps `inner`; `info` describes `blanks`, one line each.
    pub fn new(inner: &'a dyn MemorySource, blanks: Blanks, info: &str) -> Self {
        Self {
            inner,
            blanks,
            erase_info: [inner.erase_info(), info.as_bytes()].concat(),
        }
    }

    /// The erased ranges.
    pub fn blanks(&self) -> &Blanks {
        &self.blanks
    }
}

impl MemorySource for ErasedSource<'_> {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn page_shift(&self) -> u32 {
        self.inner.page_shift()
    }

    fn endian(&self) -> Endian {
        self.inner.endian()
    }

    fn machine(&self) -> &str {
        self.inner.machine()
    }

    fn is_live(&self) -> bool {
        self.inner.is_live()
    }

    fn end_frame(&self) -> PageFrame {
        self.inner.end_frame()
    }

    fn notes(&self) -> Notes<'_> {
        self.inner.notes()
    }

    fn vmcoreinfo_note(&self) -> Option<&[u8]> {
        self.inner.vmcoreinfo_note()
    }

    fn erase_info(&self) -> &[u8] {
        &self.erase_info
    }

    fn utsname(&self) -> Option<&Utsname> {
        self.inner.utsname()
    }

    fn dump_level(&self) -> u8 {
        self.inner.dump_level()
    }

    fn codecs(&self) -> Vec<&'static str> {
        self.inner.codecs()
    }

    fn damage(&self) -> Option<&str> {
        self.inner.damage()
    }

    fn ram(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        self.inner.ram(first, bits)
    }

    fn present(&self, first: PageFrame, bits: &mut Bitmap) -> Result<(), SourceError> {
        self.inner.present(first, bits)
    }

    fn next_section(&self, first: PageFrame) -> Option<PageFrame> {
        self.inner.next_section(first)
    }

    fn virtual_address(&self, frame: PageFrame) -> Option<VirtAddr> {
        self.inner.virtual_address(frame)
    }

    fn segment_address(&self, address: VirtAddr) -> Option<u64> {
        self.inner.segment_address(address)
    }

    fn header_segments(&self) -> &[LoadSegment] {
        self.inner.header_segments()
    }

    fn cache_usage(&self) -> Option<CacheUsage> {
        self.inner.cache_usage()
    }

    fn parallel_readers(&self) -> usize {
        self.inner.parallel_readers()
    }

    fn reader(&self, io: IoMethod) -> Box<dyn PageReader + '_> {
        Box::new(ErasedReader {
            inner: self.inner.reader(io),
            blanks: &self.blanks,
            page_shift: self.inner.page_shift(),
            pages: Vec::new(),
        })
    }
}

struct ErasedReader<'a> {
    inner: Box<dyn PageReader + 'a>,
    blanks: &'a Blanks,
    page_shift: u32,
    /// Pages with erased bytes.
    pages: Vec<u8>,
}

impl PageReader for ErasedReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let pages = self.inner.pages(first, count)?;
        let start = first.0 << self.page_shift;
        let end = start.saturating_add(pages.len() as u64);
        if self.blanks.within(start, end).is_empty() {
            return Ok(pages);
        }
        self.pages.clear();
        self.pages.extend_from_slice(pages);
        self.blanks.apply(start, &mut self.pages);
        Ok(&self.pages)
    }
}
