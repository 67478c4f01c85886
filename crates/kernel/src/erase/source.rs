//! A memory source that returns erased bytes, as they are dumped.

use std::sync::Arc;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::Notes;

use super::ranges::{Blanks, ERASED};
use crate::error::SourceError;
use crate::rules::ResolvedRules;
use crate::source::{
    Extensions, IoMethod, MemorySource, NotedText, PageReader, SECTION_FRAMES, SourceFacts,
};

/// Another source with erased ranges, and with pages that rules blank.
pub struct ErasedSource<'a> {
    inner: &'a dyn MemorySource,
    blanks: Blanks,
    rules: Option<Arc<ResolvedRules>>,
    erase_info: Vec<u8>,
}

impl<'a> ErasedSource<'a> {
    /// Wraps `inner`; `info` describes `blanks`, one line each.
    pub fn new(inner: &'a dyn MemorySource, blanks: Blanks, info: &str) -> Self {
        Self {
            inner,
            blanks,
            rules: None,
            erase_info: [inner.erase_info(), info.as_bytes()].concat(),
        }
    }

    /// Blanks pages by `rules`, too.
    pub fn with_rules(self, rules: Option<Arc<ResolvedRules>>) -> Self {
        let rules = rules.filter(|rules| rules.blank_any());
        Self { rules, ..self }
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
            rules: self.rules.as_deref().map(|rules| BlankPages {
                rules,
                section: None,
            }),
            page_shift: self.inner.page_shift(),
            pages: Vec::new(),
        })
    }
}

struct ErasedReader<'a> {
    inner: Box<dyn PageReader + 'a>,
    blanks: &'a Blanks,
    rules: Option<BlankPages<'a>>,
    page_shift: u32,
    /// Pages with erased bytes.
    pages: Vec<u8>,
}

impl PageReader for ErasedReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let in_section = (SECTION_FRAMES - first.0 % SECTION_FRAMES) as usize;
        let count = match self.rules {
            Some(_) => count.min(in_section),
            None => count,
        };
        let pages = self.inner.pages(first, count)?;
        let start = first.0 << self.page_shift;
        let end = start.saturating_add(pages.len() as u64);
        let found = pages.len() >> self.page_shift;
        let rules = self.rules.as_mut();
        let blank = rules.and_then(|rules| rules.next(first, 0, found));
        if blank.is_none() && self.blanks.within(start, end).is_empty() {
            return Ok(pages);
        }
        self.pages.clear();
        self.pages.extend_from_slice(pages);
        self.blanks.apply(start, &mut self.pages);
        let mut next = blank;
        while let (Some((from, to)), Some(rules)) = (next, &mut self.rules) {
            self.pages[from << self.page_shift..to << self.page_shift].fill(ERASED);
            next = rules.next(first, to, found);
        }
        Ok(&self.pages)
    }
}

/// The pages that rules blank.
struct BlankPages<'a> {
    rules: &'a ResolvedRules,
    /// The section that was asked for last, and a bit for each of its pages.
    section: Option<(PageFrame, Bitmap)>,
}

impl BlankPages<'_> {
    /// Returns the next run of pages to blank, among those from `from` up to `count` behind `first`,
    /// which are in one section.
    fn next(&mut self, first: PageFrame, from: usize, count: usize) -> Option<(usize, usize)> {
        let offset = (first.0 % SECTION_FRAMES) as usize;
        let start = PageFrame(first.0 - offset as u64);
        let bits = match &mut self.section {
            Some((section, bits)) if *section == start => bits,
            section => {
                let found = self.rules.section(start, SECTION_FRAMES as usize);
                &mut section.insert((start, found.blank)).1
            }
        };
        let (begin, length) = bits.next_run(offset + from, offset + count, count)?;
        Some((begin - offset, begin - offset + length))
    }
}
