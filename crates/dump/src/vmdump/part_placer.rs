//! Lays out one part of a vmdump: offsets, index and seek table.

use bigiron_format::codec::CodecError;
use bigiron_format::vmdump::record::{self, Tag};
use bigiron_format::vmdump::{
    Chunk, ChunkHeader, Container, DirectoryEntry, Extent, Root, SeekTable, VmdumpHeader, index,
    streams,
};

use super::packed::{PackedChunk, PlacedRecord};

/// Chunks in an index record.
const INDEX_CHUNKS: usize = 1024;

/// Assigns the records of one part their offsets.
pub(super) struct PartPlacer {
    header: VmdumpHeader,
    offset: u64,
    counts: Counts,
    /// Chunks that no index record lists yet.
    chunks: Vec<Chunk>,
    directory: Vec<DirectoryEntry>,
    seek_table: SeekTable,
    /// Index records of a bzip2 dump, which follow the core: about 10 MiB for each TiB dumped.
    waiting: Vec<u8>,
}

/// Counts in the root.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) chunks: u64,
    /// Pages dumped, including lost ones.
    pub(super) dumped: u64,
    pub(super) lost: u64,
}

impl Counts {
    pub(super) fn add(&mut self, chunk: &Chunk) {
        let bits =
            |bits: &[u8]| -> u64 { bits.iter().map(|byte| u64::from(byte.count_ones())).sum() };
        self.chunks += 1;
        self.dumped += bits(&chunk.dumped);
        self.lost += bits(&chunk.lost);
    }
}

impl PartPlacer {
    /// Creates a placer; returns the header if it comes first.
    pub(super) fn new(header: VmdumpHeader) -> (Self, Option<PlacedRecord>) {
        let mut placer = Self {
            offset: 0,
            counts: Counts::default(),
            chunks: Vec::new(),
            directory: Vec::new(),
            seek_table: SeekTable::with_share(header.stripe.1),
            waiting: Vec::new(),
            header,
        };
        let first = match placer.header.container {
            Container::Zstd => {
                let payload = placer.header.encode();
                let bytes = record::encode(Tag::Header, placer.header.dump(), &payload);
                Some(placer.add(bytes).0)
            }
            // The first stream must be the core's.
            Container::Bzip2 => None,
        };
        (placer, first)
    }

    /// Creates a placer that continues at `offset`, after the chunks in `counts`; index records
    /// list those in `directory`. `frames` are all frames so far, if nothing is between them.
    pub(super) fn resume(
        header: VmdumpHeader,
        offset: u64,
        counts: Counts,
        directory: Vec<DirectoryEntry>,
        frames: Option<Vec<(u32, u32)>>,
    ) -> Self {
        let (mut placer, _) = Self::new(header);
        placer.offset = offset;
        placer.counts = counts;
        placer.directory = directory;
        placer.seek_table = SeekTable::of(frames);
        placer
    }

    /// Adds a chunk that has its offset already to the index.
    pub(super) fn index_again(
        &mut self,
        chunk: Chunk,
        out: &mut Vec<PlacedRecord>,
    ) -> Result<(), CodecError> {
        self.chunks.push(chunk);
        if self.chunks.len() == INDEX_CHUNKS {
            self.end_index(out)?;
        }
        Ok(())
    }

    /// Places chunk number `sequence` of the dump.
    pub(super) fn chunk(
        &mut self,
        packed: PackedChunk,
        sequence: u64,
        out: &mut Vec<PlacedRecord>,
    ) -> Result<(), CodecError> {
        let PackedChunk {
            mut chunk,
            mut bytes,
            checksum,
        } = packed;
        self.counts.add(&chunk);
        chunk.offset = self.offset;
        let (compressed, len) = (chunk.packed, chunk.len as u32);
        if self.header.container == Container::Zstd {
            let header = ChunkHeader {
                chunk,
                sequence,
                checksum,
            };
            let head = header.encode(self.header.dump());
            bytes[..head.len()].copy_from_slice(&head);
            self.seek_table.add(head.len() as u32, 0);
            chunk = header.chunk;
        }
        self.seek_table.add(compressed, len);
        self.offset += bytes.len() as u64;
        out.push(PlacedRecord {
            part: self.part(),
            offset: chunk.offset,
            bytes,
        });
        self.index_again(chunk, out)
    }

    fn end_index(&mut self, out: &mut Vec<PlacedRecord>) -> Result<(), CodecError> {
        let Some(first) = self.chunks.first() else {
            return Ok(());
        };
        let (position, first_offset) = (first.position, first.offset);
        let chunks = self.chunks.len() as u32;
        let payload = index::encode(&self.chunks);
        self.chunks.clear();
        let bytes = self.record(Tag::Index, &payload)?;
        let size = bytes.len() as u32;
        let offset = match self.header.container {
            Container::Zstd => {
                let (record, extent) = self.add(bytes);
                out.push(record);
                extent.offset
            }
            Container::Bzip2 => {
                // Relative to the end of the core, which is not known yet.
                let offset = self.waiting.len();
                self.waiting.extend_from_slice(&bytes);
                offset as u64
            }
        };
        self.directory.push(DirectoryEntry {
            offset,
            size,
            chunks,
            position,
            first_offset,
        });
        Ok(())
    }

    /// Ends the chunks: adds what must be written before the end to `out`.
    pub(super) fn end_chunks(&mut self, out: &mut Vec<PlacedRecord>) -> Result<(), CodecError> {
        self.end_index(out)?;
        if !self.waiting.is_empty() {
            for entry in &mut self.directory {
                entry.offset += self.offset;
            }
            let waiting = std::mem::take(&mut self.waiting);
            out.push(self.add(waiting).0);
        }
        Ok(())
    }

    /// Returns the end of the part, which must be written last: directory, metadata, root and
    /// seek table.
    pub(super) fn end(
        mut self,
        complete: bool,
        metadata: &[u8],
    ) -> Result<PlacedRecord, CodecError> {
        let offset = self.offset;
        let directory = self.record(Tag::Directory, &index::encode_directory(&self.directory))?;
        let (directory, directory_place) = self.add(directory);
        let metadata = self.record(Tag::Metadata, metadata)?;
        let (metadata, metadata_place) = self.add(metadata);
        let root = Root {
            complete,
            chunks: self.counts.chunks,
            dumped: self.counts.dumped,
            lost: self.counts.lost,
            directory: directory_place,
            metadata: metadata_place,
            header: self.header.clone(),
        };
        let root = self.record(Tag::Root, &root.encode())?;
        let (root, _) = self.add(root);
        let mut bytes = directory.bytes;
        bytes.extend_from_slice(&metadata.bytes);
        bytes.extend_from_slice(&root.bytes);
        if self.header.container == Container::Zstd {
            bytes.extend_from_slice(&self.seek_table.encode().unwrap_or_default());
        }
        Ok(PlacedRecord {
            part: self.part(),
            offset,
            bytes,
        })
    }

    /// Encodes a record.
    fn record(&self, tag: Tag, payload: &[u8]) -> Result<Vec<u8>, CodecError> {
        match self.header.container {
            Container::Zstd => Ok(record::encode(tag, self.header.dump(), payload)),
            Container::Bzip2 => streams::encode(tag, self.header.dump(), payload),
        }
    }

    /// Number of the part.
    fn part(&self) -> usize {
        usize::from(self.header.stripe.0)
    }

    /// Places bytes after all others.
    fn add(&mut self, bytes: Vec<u8>) -> (PlacedRecord, Extent) {
        let extent = Extent {
            offset: self.offset,
            size: bytes.len() as u64,
        };
        self.seek_table.add(bytes.len() as u32, 0);
        self.offset += extent.size;
        let record = PlacedRecord {
            part: self.part(),
            offset: extent.offset,
            bytes,
        };
        (record, extent)
    }
}
