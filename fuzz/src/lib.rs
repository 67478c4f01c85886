//! Code shared by several fuzz targets.

#[path = "../../crates/kernel/tests/common/kernel_bytes.rs"]
mod kernel_bytes;
pub mod sample;
pub mod vmdump_edits;

use std::io;
use std::path::PathBuf;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, ReadAt};
use bigiron_kernel::{IoMethod, MemorySource, SECTION_FRAMES, Source, SourceError};

pub use kernel_bytes::KernelBytes;

/// Maximum number of sections that a target processes per input.
const MAX_SECTIONS: usize = 64;
/// Maximum number of pages that a target reads per input.
const MAX_PAGES: usize = 4096;

/// A dump with modified bytes; the dump itself is made once.
pub struct Patched {
    /// The dump.
    pub base: &'static [u8],
    /// Offsets and their new bytes; later edits override earlier ones.
    pub patches: Vec<(usize, Vec<u8>)>,
}

impl ReadAt for Patched {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.base.read_at(offset, buf)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(count);
        for (at, bytes) in &self.patches {
            let from = start.max(*at);
            let to = end.min(at + bytes.len());
            if from < to {
                buf[from - start..to - start].copy_from_slice(&bytes[from - at..to - at]);
            }
        }
        Ok(count)
    }

    fn size(&self) -> u64 {
        self.base.len() as u64
    }
}

/// Opens bytes in memory as a dump.
pub fn open(bytes: impl ReadAt + 'static) -> Result<Source, SourceError> {
    Source::from_bytes(Box::new(bytes), PathBuf::from("fuzzed"))
}

/// Returns the first sections of a source; a header may promise any number of them.
pub fn sections(source: &dyn MemorySource) -> Vec<PageFrame> {
    let mut sections = Vec::new();
    let mut next = source.next_section(PageFrame(0));
    while let Some(first) = next
        && sections.len() < MAX_SECTIONS
    {
        sections.push(first);
        let behind = source.next_section(PageFrame(first.0 + SECTION_FRAMES));
        assert!(behind.is_none_or(|behind| behind > first), "no progress");
        next = behind;
    }
    sections
}

/// Reads pages of all sections as the dump engine does, and checks the source's promises: a
/// reader returns whole pages, and present pages are in RAM.
pub fn read_pages(source: &dyn MemorySource) {
    let page_size = 1 << source.page_shift();
    let mut reader = source.reader(IoMethod::Read);
    let mut present = Bitmap::new(SECTION_FRAMES as usize);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut left = MAX_PAGES;
    for first in sections(source) {
        if source.ram(first, &mut ram).is_err() || source.present(first, &mut present).is_err() {
            continue;
        }
        let mut from = 0;
        while left > 0
            && let Some((start, len)) = present.next_run(from, present.len(), 64)
        {
            left -= 1;
            let frame = PageFrame(first.0 + start as u64);
            match reader.pages(frame, len) {
                Ok(pages) => {
                    assert!(!pages.is_empty() && pages.len() <= len * page_size);
                    assert_eq!(pages.len() % page_size, 0);
                    from = start + pages.len() / page_size;
                }
                Err(_) => from = start + 1,
            }
        }
    }
}
