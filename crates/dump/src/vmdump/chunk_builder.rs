//! Reads the pages of a chunk and compresses them.

use bigiron_format::PageFrame;
use bigiron_format::vmdump::chunk::bits_len;
use bigiron_format::vmdump::{Chunk, ChunkCompressor, ChunkKind, VmdumpHeader, codec};
use bigiron_kernel::SECTION_FRAMES;

use super::packed::{Buffers, Packed, PackedChunk};
use crate::core_map::CoreMap;
use crate::error::DumpError;
use crate::format::ChunkCompression;
use crate::kept_pages::{KeptCursor, KeptPages};
use crate::losses::Losses;
use crate::page::is_zero;

/// One helper's codec context and buffers.
pub(super) struct ChunkBuilder<'a> {
    map: &'a CoreMap,
    header: &'a VmdumpHeader,
    pages: Vec<u8>,
    packer: Packer<'a>,
    pub(super) counts: Counts,
}

/// Counts of one helper.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) zero: u64,
    pub(super) bytes_in: u64,
    pub(super) losses: Losses,
}

impl Counts {
    fn add(&mut self, bytes: &[u8], page_size: usize) {
        self.bytes_in += bytes.len() as u64;
        let zero = bytes.chunks_exact(page_size).filter(|page| is_zero(page));
        self.zero += zero.count() as u64;
    }
}

/// Consecutive page frames of a chunk.
struct FrameRun {
    /// Index of the first page in the chunk.
    page: usize,
    first: PageFrame,
    len: usize,
}

impl<'a> ChunkBuilder<'a> {
    pub(super) fn new(
        map: &'a CoreMap,
        header: &'a VmdumpHeader,
        compression: ChunkCompression,
        buffers: &'a Buffers,
    ) -> Result<Self, DumpError> {
        Ok(Self {
            map,
            header,
            pages: Vec::new(),
            packer: Packer {
                header,
                compressor: compression.compressor()?,
                room: Vec::new(),
                buffers,
            },
            counts: Counts::default(),
        })
    }

    /// Packs chunk `number` of the memory; returns it and its number of dumped pages.
    pub(super) fn pack_memory(
        &mut self,
        kept: &KeptPages,
        cursor: &mut KeptCursor,
        number: u64,
    ) -> Result<(Packed, u64), DumpError> {
        let shift = self.header.page_shift;
        let first = number * u64::from(self.header.chunk_pages);
        let count = u64::from(self.header.chunk_pages).min(self.map.pages() - first);
        let mut chunk = Chunk {
            kind: ChunkKind::Pages,
            position: self.map.memory_offset() + (first << shift),
            len: count << shift,
            offset: 0,
            packed: 0,
            dumped: vec![0; bits_len(count)],
            lost: Vec::new(),
        };
        let runs = self.find_kept(kept, cursor, first, count, &mut chunk.dumped)?;
        let dumped = runs.iter().map(|run| run.len as u64).sum();
        if runs.is_empty() {
            let (position, len) = (chunk.position, chunk.len);
            return Ok((Packed::Excluded { position, len }, dumped));
        }
        let packed = self.pack_runs(cursor, chunk, &runs)?;
        Ok((Packed::Chunk(packed), dumped))
    }

    /// Packs a range of the bytes before the memory.
    pub(super) fn pack_headers(
        &mut self,
        position: u64,
        bytes: &[u8],
    ) -> Result<Packed, DumpError> {
        let chunk = Chunk {
            kind: ChunkKind::Headers,
            position,
            len: bytes.len() as u64,
            offset: 0,
            packed: 0,
            dumped: Vec::new(),
            lost: Vec::new(),
        };
        Ok(Packed::Chunk(self.packer.pack(chunk, bytes)?))
    }

    /// Sets the bits of the kept pages among `count` pages from `first` on; returns their frames.
    fn find_kept(
        &self,
        kept: &KeptPages,
        cursor: &mut KeptCursor,
        first: u64,
        count: u64,
        dumped: &mut [u8],
    ) -> Result<Vec<FrameRun>, DumpError> {
        let sections = &kept.plan.sections;
        let mut runs: Vec<FrameRun> = Vec::new();
        let mut page = 0;
        while page < count {
            let Some((frame, run)) = self.map.frames_at(first + page) else {
                break;
            };
            let section_start = frame.0 / SECTION_FRAMES * SECTION_FRAMES;
            let start = (frame.0 - section_start) as usize;
            let len = run.min(count - page).min(SECTION_FRAMES - start as u64) as usize;
            let index = sections.index_of(PageFrame(section_start));
            if let Some(index) = index.filter(|index| sections.at(*index).kept > 0) {
                let bits = cursor.load(index)?;
                let mut from = start;
                while let Some((at, kept)) = bits.next_run(from, start + len, len) {
                    from = at + kept;
                    let run = FrameRun {
                        page: page as usize + (at - start),
                        first: PageFrame(section_start + at as u64),
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

    /// Reads the pages of `runs` and compresses the chunk. Unreadable pages are zeros.
    fn pack_runs(
        &mut self,
        cursor: &mut KeptCursor,
        mut chunk: Chunk,
        runs: &[FrameRun],
    ) -> Result<PackedChunk, DumpError> {
        let page_size = 1_usize << self.header.page_shift;
        let count = chunk.len as usize / page_size;
        // Pages that one read returns need not be copied into a buffer.
        if let [run] = runs
            && run.len == count
            && let Some(bytes) = cursor.read_at_once(run.first, count)
        {
            self.counts.add(bytes, page_size);
            return self.packer.pack(chunk, bytes);
        }
        let Self { pages, counts, .. } = self;
        pages.clear();
        for run in runs {
            pages.resize(run.page * page_size, 0);
            cursor.read_run(run.first, run.len, |frame, read| {
                match read {
                    Ok(bytes) => {
                        counts.add(bytes, page_size);
                        pages.extend_from_slice(bytes);
                    }
                    Err(error) => {
                        counts.losses.add(frame, &error);
                        let page = pages.len() / page_size;
                        pages.resize(pages.len() + page_size, 0);
                        chunk.lost.resize(chunk.dumped.len(), 0);
                        chunk.lost[page / 8] |= 1 << (page % 8);
                    }
                }
                Ok(())
            })?;
        }
        pages.resize(chunk.len as usize, 0);
        self.packer.pack(chunk, &self.pages)
    }
}

/// Compresses chunks.
struct Packer<'a> {
    header: &'a VmdumpHeader,
    compressor: ChunkCompressor,
    /// Room for a compressed chunk. It keeps its size: filling a buffer with zeros for each chunk
    /// would cost more than copying the compressed bytes.
    room: Vec<u8>,
    buffers: &'a Buffers,
}

impl Packer<'_> {
    fn pack(&mut self, mut chunk: Chunk, bytes: &[u8]) -> Result<PackedChunk, DumpError> {
        let head = chunk.head_size(self.header.container);
        let bound = self.compressor.bound(bytes.len());
        if self.room.len() < bound {
            self.room.resize(bound, 0);
        }
        let len = self.compressor.compress(bytes, &mut self.room)?;
        let packed = &self.room[..len];
        let mut out = self.buffers.take();
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
}
