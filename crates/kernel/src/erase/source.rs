//! A memory source that returns erased bytes, as they are dumped.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::Notes;

use super::ranges::Blanks;
use crate::error::SourceError;
use crate::source::{Extensions, IoMethod, MemorySource, NotedText, PageReader, SourceFacts};

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

    fn end_frame(&self) -> PageFrame {
        self.inner.end_frame()
    }

    fn notes(&self) -> Notes<'_> {
        self.inner.notes()
    }

    fn vmcoreinfo_note(&self) -> Option<NotedText<'_>> {
        self.inner.vmcoreinfo_note()
    }

    fn facts(&self) -> SourceFacts<'_> {
        SourceFacts {
            erase_info: &self.erase_info,
            ..self.inner.facts()
        }
    }

    /// Without what refers to the stored form of pages, which has the erased data.
    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            stored_sizes: None,
            vmdump: None,
            ..self.inner.extensions()
        }
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
