//! What each helper does: reads the pages of a chunk and compresses them.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::vmdump::chunk::bits_len;
use bigiron_format::vmdump::{Chunk, ChunkCompressor, ChunkKind, codec};
use bigiron_kernel::{PageReader, SECTION_FRAMES};

use super::copy::Copy;
use super::place::{Packed, PackedChunk};
use crate::error::DumpError;
use crate::losses::Losses;
use crate::page::is_zero;
use crate::plan;

/// One helper: a reader, a codec context and buffers of its own.
pub(super) struct Helper<'a, 's> {
    copy: &'a Copy<'a, 's>,
    reader: Box<dyn PageReader + 'a>,
    compressor: ChunkCompressor,
    /// The pages of a chunk.
    pages: Vec<u8>,
    /// Room for what a chunk may become. It stays as long as it is: filling a
    /// buffer of that size with zeros for each chunk would cost more than copying
    /// what came out.
    room: Vec<u8>,
    kept: Bitmap,
    loaded: Option<usize>,
    pub(super) counts: Counts,
}

/// What a helper did.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) zero: u64,
    pub(super) bytes_in: u64,
    pub(super) losses: Losses,
}

/// Page frames of a chunk that follow each other.
struct Frames {
    /// The first page of the chunk.
    page: usize,
    first: PageFrame,
    len: usize,
}

impl<'a, 's> Helper<'a, 's> {
    pub(super) fn new(copy: &'a Copy<'a, 's>) -> Result<Self, DumpError> {
        let source = copy.task.kernel.source();
        Ok(Self {
            copy,
            reader: source.reader(copy.task.options.io),
            compressor: copy.compressor()?,
            pages: Vec::new(),
            room: Vec::new(),
            kept: Bitmap::new(SECTION_FRAMES as usize),
            loaded: None,
            counts: Counts::default(),
        })
    }

    /// The `number`-th chunk of memory.
    pub(super) fn chunk(&mut self, number: u64) -> Result<(Packed, u64), DumpError> {
        let map = self.copy.map;
        let shift = self.copy.header.page_shift;
        let first = number * u64::from(self.copy.header.chunk_pages);
        let count = u64::from(self.copy.header.chunk_pages).min(map.pages() - first);
        let mut chunk = Chunk {
            kind: ChunkKind::Pages,
            position: map.memory_offset() + (first << shift),
            len: count << shift,
            offset: 0,
            packed: 0,
            dumped: vec![0; bits_len(count)],
            lost: Vec::new(),
        };
        let runs = self.find_kept(first, count, &mut chunk.dumped)?;
        let dumped = runs.iter().map(|run| run.len as u64).sum();
        if runs.is_empty() {
            let (position, len) = (chunk.position, chunk.len);
            return Ok((Packed::Excluded { position, len }, dumped));
        }
        Ok((Packed::Chunk(self.pack(chunk, &runs)?), dumped))
    }

    /// A part of what stands in front of the memory.
    pub(super) fn headers(&mut self, position: u64, bytes: &[u8]) -> Result<Packed, DumpError> {
        let chunk = Chunk {
            kind: ChunkKind::Headers,
            position,
            len: bytes.len() as u64,
            offset: 0,
            packed: 0,
            dumped: Vec::new(),
            lost: Vec::new(),
        };
        let packed = compress(
            self.copy,
            &mut self.compressor,
            &mut self.room,
            chunk,
            bytes,
        )?;
        Ok(Packed::Chunk(packed))
    }

    /// Sets the bits of the pages that are kept, and gives their frames.
    fn find_kept(
        &mut self,
        first: u64,
        count: u64,
        dumped: &mut [u8],
    ) -> Result<Vec<Frames>, DumpError> {
        let mut runs: Vec<Frames> = Vec::new();
        let mut page = 0;
        while page < count {
            let Some((frame, run)) = self.copy.map.frames_at(first + page) else {
                break;
            };
            let chunk_start = frame.0 / SECTION_FRAMES * SECTION_FRAMES;
            let start = (frame.0 - chunk_start) as usize;
            let len = run.min(count - page).min(SECTION_FRAMES - start as u64) as usize;
            if self.load(PageFrame(chunk_start))? {
                let mut from = start;
                while let Some((at, kept)) = self.kept.next_run(from, start + len, len) {
                    from = at + kept;
                    let run = Frames {
                        page: page as usize + (at - start),
                        first: PageFrame(chunk_start + at as u64),
                        len: kept,
                    };
                    for bit in run.page..run.page + run.len {
                        dumped[bit / 8] |= 1 << (bit % 8);
                    }
                    match runs.last_mut() {
                        Some(last)
                            if last.page + last.len == run.page
                                && last.first.0 + last.len as u64 == run.first.0 =>
                        {
                            last.len += run.len;
                        }
                        _ => runs.push(run),
                    }
                }
            }
            page += len as u64;
        }
        Ok(runs)
    }

    /// Brings the kept pages of the plan's chunk that begins with `first`;
    /// whether there are any.
    fn load(&mut self, first: PageFrame) -> Result<bool, DumpError> {
        let copy = self.copy;
        let Some(index) = copy.plan.chunks.index_of(first) else {
            return Ok(false);
        };
        if copy.plan.chunks.at(index).kept == 0 {
            return Ok(false);
        }
        if self.loaded == Some(index) {
            return Ok(true);
        }
        self.loaded = None;
        plan::load_kept(
            copy.task,
            copy.store,
            copy.filter,
            self.reader.as_mut(),
            (index, first),
            &mut self.kept,
        )?;
        self.loaded = Some(index);
        Ok(true)
    }

    /// Reads the pages of `runs` and compresses the chunk.
    fn pack(&mut self, mut chunk: Chunk, runs: &[Frames]) -> Result<PackedChunk, DumpError> {
        let page_size = self.copy.task.page_size();
        let pages = chunk.len as usize / page_size;
        // Where all pages come at once they need not be copied together.
        if let [run] = runs
            && run.len == pages
            && let Ok(bytes) = self.reader.pages(run.first, pages)
            && bytes.len() as u64 == chunk.len
        {
            self.counts.bytes_in += chunk.len;
            self.counts.zero += count_zero(bytes, page_size);
            return compress(
                self.copy,
                &mut self.compressor,
                &mut self.room,
                chunk,
                bytes,
            );
        }
        self.pages.clear();
        for run in runs {
            self.pages.resize(run.page * page_size, 0);
            self.read(run, &mut chunk)?;
        }
        self.pages.resize(chunk.len as usize, 0);
        compress(
            self.copy,
            &mut self.compressor,
            &mut self.room,
            chunk,
            &self.pages,
        )
    }

    /// Reads pages to the end of those that are there; lost ones are zeros.
    fn read(&mut self, run: &Frames, chunk: &mut Chunk) -> Result<(), DumpError> {
        let page_size = self.copy.task.page_size();
        let mut done = 0;
        while done < run.len {
            let frame = PageFrame(run.first.0 + done as u64);
            match self.reader.pages(frame, run.len - done) {
                Ok(bytes) => {
                    self.counts.bytes_in += bytes.len() as u64;
                    self.counts.zero += count_zero(bytes, page_size);
                    self.pages.extend_from_slice(bytes);
                    done += bytes.len() / page_size;
                }
                Err(error) if error.is_one_page() => {
                    self.counts.losses.add(frame, &error);
                    self.pages.resize(self.pages.len() + page_size, 0);
                    let page = run.page + done;
                    chunk.lost.resize(chunk.dumped.len(), 0);
                    chunk.lost[page / 8] |= 1 << (page % 8);
                    done += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Zero pages among those that are dumped.
fn count_zero(bytes: &[u8], page_size: usize) -> u64 {
    let pages = bytes.chunks_exact(page_size);
    pages.filter(|page| is_zero(page)).count() as u64
}

fn compress(
    copy: &Copy,
    compressor: &mut ChunkCompressor,
    room: &mut Vec<u8>,
    mut chunk: Chunk,
    bytes: &[u8],
) -> Result<PackedChunk, DumpError> {
    let head = chunk.head_size(copy.header.container);
    let bound = compressor.bound(bytes.len());
    if room.len() < bound {
        room.resize(bound, 0);
    }
    let len = compressor.compress(bytes, room)?;
    let packed = &room[..len];
    let mut out = copy.buffers.take();
    out.clear();
    out.resize(head, 0);
    out.extend_from_slice(packed);
    chunk.packed = len as u32;
    let checksum = codec::checksum(packed);
    Ok(PackedChunk {
        chunk,
        bytes: out,
        checksum,
    })
}
