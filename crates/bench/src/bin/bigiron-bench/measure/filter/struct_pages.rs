//! Where the struct pages of a source are, and readers of them alone.

use std::hint::black_box;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use bigiron_format::PageFrame;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::{Kernel, PageReader, SECTION_FRAMES, SourceError};

/// Pages read at once by the bare read: as the filter does.
const PAGES_AT_ONCE: u64 = 64;

/// Pages full of struct pages, one behind the other in physical memory.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The first.
    pub first: PageFrame,
    /// How many.
    pub pages: u64,
}

/// A chunk of page frames and where its struct pages are.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The first page frame it tells about.
    pub first: PageFrame,
    /// Its struct pages.
    pub runs: Vec<Run>,
}

impl Chunk {
    /// Pages that its struct pages fill.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|run| run.pages).sum()
    }
}

/// All chunks of a source. What cannot be translated is left out.
pub fn chunks(kernel: &Kernel) -> anyhow::Result<Vec<Chunk>> {
    let map = MemMap::find(kernel)?;
    let chunks = kernel.source().sections().map(|first| Chunk {
        first,
        runs: runs_of(kernel, &map, first),
    });
    Ok(chunks.collect())
}

fn runs_of(kernel: &Kernel, map: &MemMap, first: PageFrame) -> Vec<Run> {
    let page_shift = kernel.source().page_shift();
    let (shift, size) = (map.frames_shift(), map.page_struct_size());
    let mut runs: Vec<Run> = Vec::new();
    let (mut frame, chunk_end) = (first.0, first.0 + SECTION_FRAMES);
    while frame < chunk_end {
        let end = (((frame >> shift) + 1) << shift).min(chunk_end);
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

/// Adds up the words of all struct pages: how long it takes at least to have
/// looked at each. Gives the number of bytes.
pub fn bare_read(
    reader: &mut dyn PageReader,
    chunks: &[Chunk],
    page_shift: u32,
) -> Result<u64, SourceError> {
    let mut read = 0;
    read_all(reader, chunks, page_shift, |bytes| {
        black_box(sum(bytes));
        read += bytes.len() as u64;
    })?;
    Ok(read)
}

/// The sum of the words of `bytes`, which are a multiple of eight.
pub fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks().0.iter();
    words.fold(0, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

fn read_all(
    reader: &mut dyn PageReader,
    chunks: &[Chunk],
    page_shift: u32,
    mut take: impl FnMut(&[u8]),
) -> Result<(), SourceError> {
    for run in chunks.iter().flat_map(|chunk| &chunk.runs) {
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

/// Copies of a source's struct pages in memory, so many that they are in no
/// processor's cache when their turn comes again.
pub struct Copies {
    /// Of each run: its first page frame, and where it is in a copy.
    index: Vec<(PageFrame, Range<usize>)>,
    bytes: Vec<u8>,
    copy_len: usize,
    turn: AtomicUsize,
    page_shift: u32,
}

impl Copies {
    /// Copies the struct pages of `chunks` until there are `bytes` of them.
    pub fn new(
        reader: &mut dyn PageReader,
        chunks: &[Chunk],
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
        for chunk in chunks {
            for run in &chunk.runs {
                let one = Chunk {
                    first: chunk.first,
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

    /// The copy that was given longest ago.
    pub fn next(&self) -> &[u8] {
        let count = self.bytes.len().checked_div(self.copy_len).unwrap_or(0);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let number = turn.checked_rem(count).unwrap_or(0);
        &self.bytes[number * self.copy_len..][..self.copy_len]
    }

    /// A reader of the copy that was given longest ago.
    pub fn reader(&self) -> CopyReader<'_> {
        CopyReader {
            copies: self,
            bytes: self.next(),
        }
    }
}

/// Reads struct pages where they lie in memory, without copying them; all
/// other pages are absent.
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

/// Counts the bytes that another reader gives.
pub struct CountingReader<'a> {
    /// The other reader.
    pub reader: Box<dyn PageReader + 'a>,
    /// Bytes given so far.
    pub bytes: u64,
}

impl PageReader for CountingReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let bytes = self.reader.pages(first, count)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}
