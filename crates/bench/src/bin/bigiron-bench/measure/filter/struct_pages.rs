//! The locations of a source's struct pages, and readers restricted to them.

use std::hint::black_box;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use bigiron_format::PageFrame;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::{Kernel, PageReader, SECTION_FRAMES, SourceError};

/// Pages read at once by the bare read, as in the filter.
const PAGES_AT_ONCE: u64 = 64;

/// Consecutive physical pages that contain only struct pages.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// First page frame.
    pub first: PageFrame,
    /// Number of pages.
    pub pages: u64,
}

/// A section of page frames, with the locations of its struct pages.
#[derive(Clone, Debug)]
pub struct Section {
    /// First page frame described by the struct pages.
    pub first: PageFrame,
    /// Locations of the struct pages.
    pub runs: Vec<Run>,
}

impl Section {
    /// Returns the number of pages that the struct pages fill.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|run| run.pages).sum()
    }
}

/// Returns all sections of a source. Struct pages that cannot be translated are omitted.
pub fn sections(kernel: &Kernel) -> anyhow::Result<Vec<Section>> {
    let map = MemMap::find(kernel)?;
    let sections = kernel.source().sections().map(|first| Section {
        first,
        runs: runs_of(kernel, &map, first),
    });
    Ok(sections.collect())
}

fn runs_of(kernel: &Kernel, map: &MemMap, first: PageFrame) -> Vec<Run> {
    let page_shift = kernel.source().page_shift();
    let (shift, size) = (map.frames_shift(), map.page_struct_size());
    let mut runs: Vec<Run> = Vec::new();
    let (mut frame, section_end) = (first.0, first.0 + SECTION_FRAMES);
    while frame < section_end {
        let end = (((frame >> shift) + 1) << shift).min(section_end);
        if let Ok(Some(section)) = map.section(kernel, frame >> shift) {
            let mut address = map.page_struct(section, PageFrame(frame));
            let mut rest = ((end - frame) * size) >> page_shift;
            while rest > 0 {
                let leaf = kernel.translate(address).ok().flatten();
                let pages = leaf.map_or(1, |leaf| (leaf.len >> page_shift).clamp(1, rest));
                if let Some(leaf) = leaf {
                    let first = leaf.physical.page_frame(page_shift);
                    runs.push(Run { first, pages });
                }
                rest -= pages;
                let Some(next) = address.checked_add(pages << page_shift) else {
                    break;
                };
                address = next;
            }
        }
        frame = end;
    }
    runs
}

/// Sums the words of all struct pages, which takes the minimum time of reading each. Returns
/// the number of bytes.
pub fn bare_read(
    reader: &mut dyn PageReader,
    sections: &[Section],
    page_shift: u32,
) -> Result<u64, SourceError> {
    let mut read = 0;
    read_all(reader, sections, page_shift, |bytes| {
        black_box(sum(bytes));
        read += bytes.len() as u64;
    })?;
    Ok(read)
}

/// Returns the sum of the words of `bytes`, whose length is a multiple of eight.
pub fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks().0.iter();
    words.fold(0, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

fn read_all(
    reader: &mut dyn PageReader,
    sections: &[Section],
    page_shift: u32,
    mut take: impl FnMut(&[u8]),
) -> Result<(), SourceError> {
    for run in sections.iter().flat_map(|section| &section.runs) {
        let mut done = 0;
        while done < run.pages {
            let count = (run.pages - done).min(PAGES_AT_ONCE);
            match reader.pages(PageFrame(run.first.0 + done), count as usize) {
                Ok(bytes) => {
                    take(bytes);
                    done += (bytes.len() as u64 >> page_shift).max(1);
                }
                Err(error) if error.is_one_page() => done += 1,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Copies of a source's struct pages in memory, so many that none is in a CPU cache when it is
/// used again.
pub struct Copies {
    /// First page frame of each run, with its range in a copy.
    index: Vec<(PageFrame, Range<usize>)>,
    bytes: Vec<u8>,
    copy_len: usize,
    turn: AtomicUsize,
    page_shift: u32,
}

impl Copies {
    /// Copies the struct pages of `sections` until the copies have `bytes` bytes.
    pub fn new(
        reader: &mut dyn PageReader,
        sections: &[Section],
        page_shift: u32,
        bytes: usize,
    ) -> Result<Self, SourceError> {
        let mut copies = Self {
            index: Vec::new(),
            bytes: Vec::with_capacity(bytes),
            copy_len: 0,
            turn: AtomicUsize::new(0),
            page_shift,
        };
        for section in sections {
            for run in &section.runs {
                let one = Section {
                    first: section.first,
                    runs: vec![*run],
                };
                let start = copies.bytes.len();
                let end = start + ((run.pages as usize) << page_shift);
                read_all(reader, &[one], page_shift, |bytes| {
                    copies.bytes.extend_from_slice(bytes);
                })?;
                copies.bytes.resize(end, 0);
                copies.index.push((run.first, start..end));
            }
        }
        copies.index.sort_unstable_by_key(|(first, _)| *first);
        copies.copy_len = copies.bytes.len();
        while copies.copy_len > 0 && copies.bytes.len() + copies.copy_len <= bytes {
            copies.bytes.extend_from_within(..copies.copy_len);
        }
        Ok(copies)
    }

    /// Returns the least recently used copy.
    pub fn next(&self) -> &[u8] {
        let count = self.bytes.len().checked_div(self.copy_len).unwrap_or(0);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let number = turn.checked_rem(count).unwrap_or(0);
        &self.bytes[number * self.copy_len..][..self.copy_len]
    }

    /// Returns a reader of the least recently used copy.
    pub fn reader(&self) -> CopyReader<'_> {
        CopyReader {
            copies: self,
            bytes: self.next(),
        }
    }
}

/// Reads struct pages from memory without copying them. All other pages are absent.
pub struct CopyReader<'a> {
    copies: &'a Copies,
    bytes: &'a [u8],
}

impl PageReader for CopyReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let (index, shift) = (&self.copies.index, self.copies.page_shift);
        let behind = index.partition_point(|(start, _)| *start <= first);
        let run = behind.checked_sub(1).and_then(|run| {
            let (start, place) = &index[run];
            let pages = usize::try_from(first.0 - start.0).ok()?;
            let from = place.start.checked_add(pages.checked_mul(1 << shift)?)?;
            (from < place.end).then_some((from, place.end))
        });
        let Some((from, end)) = run else {
            return Err(SourceError::Absent {
                path: PathBuf::from("the copy of the struct pages"),
                frame: first,
            });
        };
        Ok(&self.bytes[from..end.min(from + (count << shift))])
    }
}

/// Counts the bytes returned by another reader.
pub struct CountingReader<'a> {
    /// The other reader.
    pub reader: Box<dyn PageReader + 'a>,
    /// Number of bytes returned so far.
    pub bytes: u64,
}

impl PageReader for CountingReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let bytes = self.reader.pages(first, count)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}
