//! Reads pages of an ELF core.

use std::ops::Range;
use std::path::Path;

use bigiron_format::elf::LoadSegment;
use bigiron_format::{PageFrame, ReadAt};

use super::PageReader;
use super::elf::{ElfBytes, ElfSource};
use super::file::{FileWindow, IoMethod};
use super::run_length::RunLength;
use crate::error::SourceError;

/// One helper's view of an ELF core.
pub(super) struct ElfReader<'a> {
    source: &'a ElfSource,
    bytes: ReaderBytes<'a>,
    run_length: RunLength,
    /// A page assembled from several segments.
    page: Vec<u8>,
}

/// The bytes that a reader reads from.
enum ReaderBytes<'a> {
    Window(FileWindow<'a>),
    Copied {
        from: &'a dyn ReadAt,
        path: &'a Path,
        buffer: Vec<u8>,
    },
}

impl ReaderBytes<'_> {
    /// Makes `len` bytes at `offset` available to [`ReaderBytes::get`]; the caller checked that
    /// the file has them. They are in `segment`, a part of the file.
    fn load(&mut self, offset: u64, len: usize, segment: &Range<u64>) -> Result<(), SourceError> {
        match self {
            Self::Window(window) => window.load("memory", offset, len, segment),
            Self::Copied { from, path, buffer } => {
                buffer.resize(len, 0);
                from.read_exact_at("memory", offset, buffer)
                    .map_err(|cause| SourceError::Format {
                        path: path.to_path_buf(),
                        cause,
                    })
            }
        }
    }

    /// Returns the first `len` of the bytes that were loaded last.
    fn get(&self, len: usize) -> &[u8] {
        match self {
            Self::Window(window) => window.bytes(len),
            Self::Copied { buffer, .. } => &buffer[..len],
        }
    }
}

impl<'a> ElfReader<'a> {
    pub(super) fn new(source: &'a ElfSource, io: IoMethod) -> Self {
        let bytes = match source.bytes.as_ref() {
            ElfBytes::File(file) => ReaderBytes::Window(FileWindow::new(file, io)),
            ElfBytes::Other(bytes, path) => ReaderBytes::Copied {
                from: bytes.as_ref(),
                path,
                buffer: Vec::new(),
            },
        };
        Self {
            source,
            bytes,
            run_length: RunLength::default(),
            page: Vec::new(),
        }
    }

    /// Assembles a page of which segments hold only a part; bytes in no segment are zero, as in
    /// /proc/vmcore.
    fn partial_page(&mut self, frame: PageFrame) -> Result<&[u8], SourceError> {
        let source = self.source;
        let page_size = 1_u64 << source.page_shift;
        let page_start = frame.0 << source.page_shift;
        let size = source.bytes.read().size();
        let absent = || SourceError::Absent {
            path: source.bytes.path().to_owned(),
            frame,
        };
        self.page.clear();
        self.page.resize(page_size as usize, 0);
        let mut found = false;
        let from = source
            .segments
            .partition_point(|s| s.physical.0 + s.memory_size <= page_start);
        let near = source.segments[from..]
            .iter()
            .take_while(|s| s.physical.0 < page_start + page_size);
        for segment in near {
            let data = segment
                .file_size
                .min(size.saturating_sub(segment.file_offset));
            let start = segment.physical.0.max(page_start);
            let end = (segment.physical.0 + data).min(page_start + page_size);
            let whole = (segment.physical.0 + segment.file_size).min(page_start + page_size);
            if end < whole {
                return Err(absent());
            }
            if start < end {
                found = true;
                let target = (start - page_start) as usize..(end - page_start) as usize;
                let offset = segment.file_offset + (start - segment.physical.0);
                self.bytes
                    .load(offset, target.len(), &file_range(segment))?;
                let part = self.bytes.get(target.len());
                self.page[target].copy_from_slice(part);
            }
        }
        if found { Ok(&self.page) } else { Err(absent()) }
    }
}

impl ElfReader<'_> {
    /// Returns the offset and the number of at most `count` whole pages that one segment has, and
    /// the part of the file that holds the segment.
    fn whole_pages(&self, first: PageFrame, count: usize) -> Option<(u64, usize, Range<u64>)> {
        let source = self.source;
        let shift = source.page_shift;
        let address = first.0 << shift;
        let size = source.bytes.read().size();
        source.segment_of(address).and_then(|segment| {
            let data = segment
                .file_size
                .min(size.saturating_sub(segment.file_offset));
            let inside = address - segment.physical.0;
            let pages = (data.saturating_sub(inside) >> shift).min(count as u64);
            let offset = segment.file_offset + inside;
            (pages > 0).then(|| (offset, pages as usize, file_range(segment)))
        })
    }
}

impl PageReader for ElfReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let Some((offset, pages, segment)) = self.whole_pages(first, count) else {
            return self.partial_page(first);
        };
        let shift = self.source.page_shift;
        let bytes = &mut self.bytes;
        let load = |pages: usize| bytes.load(offset, pages << shift, &segment);
        let (pages, ()) = self.run_length.read(pages, load)?;
        Ok(self.bytes.get(pages << shift))
    }

    fn copy_pages(
        &mut self,
        first: PageFrame,
        count: usize,
        buf: &mut [u8],
    ) -> Result<usize, SourceError> {
        if let Some((offset, pages, segment)) = self.whole_pages(first, count)
            && let ReaderBytes::Window(window) = &mut self.bytes
        {
            let shift = self.source.page_shift;
            let copy = |pages: usize| {
                let target = &mut buf[..pages << shift];
                window.copy("memory", offset, target, &segment)
            };
            let (pages, ()) = self.run_length.read(pages, copy)?;
            return Ok(pages << shift);
        }
        let pages = self.pages(first, count)?;
        buf[..pages.len()].copy_from_slice(pages);
        Ok(pages.len())
    }
}

/// Returns the part of the file that holds a segment.
fn file_range(segment: &LoadSegment) -> Range<u64> {
    segment.file_offset..segment.file_offset.saturating_add(segment.file_size)
}
