//! The one place where chunks get their order: offsets in the file, numbers,
//! index and seek table.

use bigiron_format::codec::CodecError;
use bigiron_format::vmdump::record::{self, Tag};
use bigiron_format::vmdump::{
    Chunk, ChunkCompressor, ChunkHeader, ChunkKind, Container, DirectoryEntry, MAX_RUN, Place,
    Root, SeekTable, VmdumpHeader, codec, index, streams, zeros,
};

/// Chunks of an index record.
const INDEX_CHUNKS: usize = 1024;

/// A chunk that has no place yet.
pub(super) enum Packed {
    /// Compressed.
    Chunk(PackedChunk),
    /// Pages of which none is dumped.
    Excluded {
        /// Where they begin in the core.
        position: u64,
        /// Their bytes.
        len: u64,
    },
}

/// A compressed chunk, with room in front of it.
pub(super) struct PackedChunk {
    /// Its offset is not known yet.
    pub(super) chunk: Chunk,
    /// Room for the chunk's header, then the compressed bytes.
    pub(super) bytes: Vec<u8>,
    /// XXH3 of the compressed bytes.
    pub(super) checksum: u64,
}

/// Bytes and where they belong.
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// Gives everything its place.
pub(super) struct Placer {
    header: VmdumpHeader,
    offset: u64,
    sequence: u64,
    /// Pages of which none is dumped, not placed yet: position and length.
    run: Option<(u64, u64)>,
    /// Chunks that are in no index record yet.
    chunks: Vec<Chunk>,
    directory: Vec<DirectoryEntry>,
    seek_table: SeekTable,
    /// Index records of a dump in bzip2, which stand behind the core: some 10 MiB
    /// for each TiB that is dumped.
    waiting: Vec<u8>,
    /// Streams of zeros by the logarithm of their length.
    zeros: Vec<Option<Vec<u8>>>,
}

impl Placer {
    /// A placer, and the header, where that comes first.
    pub(super) fn new(header: VmdumpHeader) -> (Self, Option<Piece>) {
        let mut placer = Self {
            header,
            offset: 0,
            sequence: 0,
            run: None,
            chunks: Vec::new(),
            directory: Vec::new(),
            seek_table: SeekTable::default(),
            waiting: Vec::new(),
            zeros: vec![None; zeros::MAX_BZIP2.ilog2() as usize + 1],
        };
        let first = match placer.header.container {
            Container::Zstd => {
                let payload = placer.header.encode();
                let bytes = record::encode(Tag::Header, placer.header.dump(), &payload);
                Some(placer.add(bytes).0)
            }
            // Its first stream must be the core's.
            Container::Bzip2 => None,
        };
        (placer, first)
    }

    /// A placer behind `sequence` chunks that end at `offset`, of which those in
    /// `directory` have index records. `frames` are all frames so far, if there
    /// is nothing between them.
    pub(super) fn resume(
        header: VmdumpHeader,
        offset: u64,
        sequence: u64,
        directory: Vec<DirectoryEntry>,
        frames: Option<Vec<(u32, u32)>>,
    ) -> Self {
        let (mut placer, _) = Self::new(header);
        placer.offset = offset;
        placer.sequence = sequence;
        placer.directory = directory;
        placer.seek_table = SeekTable::of(frames);
        placer
    }

    /// Takes a chunk into the index that has its place already.
    pub(super) fn index_again(
        &mut self,
        chunk: Chunk,
        out: &mut Vec<Piece>,
    ) -> Result<(), CodecError> {
        self.chunks.push(chunk);
        if self.chunks.len() == INDEX_CHUNKS {
            self.end_index(out)?;
        }
        Ok(())
    }

    /// Places what comes next; gives what is to be written in `out`.
    pub(super) fn place(&mut self, packed: Packed, out: &mut Vec<Piece>) -> Result<(), CodecError> {
        match packed {
            Packed::Excluded { position, len } => {
                let (start, before) = self.run.unwrap_or((position, 0));
                self.run = Some((start, before + len));
                if before + len >= MAX_RUN {
                    self.end_run(out)?;
                }
                Ok(())
            }
            Packed::Chunk(packed) => {
                self.end_run(out)?;
                self.chunk(packed, out)
            }
        }
    }

    /// Writes the excluded pages that were put together.
    fn end_run(&mut self, out: &mut Vec<Piece>) -> Result<(), CodecError> {
        let Some((mut position, mut left)) = self.run.take() else {
            return Ok(());
        };
        while left > 0 {
            let (len, zeros) = match self.header.container {
                Container::Zstd => {
                    let len = left.min(MAX_RUN);
                    (len, zeros::zstd_frame(len as u32))
                }
                Container::Bzip2 => {
                    let len = zeros::bzip2_piece(left);
                    (len, self.bzip2_zeros(len)?)
                }
            };
            let chunk = Chunk {
                kind: ChunkKind::Excluded,
                position,
                len,
                offset: 0,
                packed: zeros.len() as u32,
                dumped: Vec::new(),
                lost: Vec::new(),
            };
            let mut bytes = vec![0; chunk.head_size(self.header.container)];
            bytes.extend_from_slice(&zeros);
            let checksum = codec::checksum(&zeros);
            self.chunk(
                PackedChunk {
                    chunk,
                    bytes,
                    checksum,
                },
                out,
            )?;
            position += len;
            left -= len;
        }
        Ok(())
    }

    fn bzip2_zeros(&mut self, len: u64) -> Result<Vec<u8>, CodecError> {
        let log = len.ilog2() as usize;
        if let Some(Some(known)) = self.zeros.get(log) {
            return Ok(known.clone());
        }
        let zeros = vec![0; len as usize];
        let mut compressor = ChunkCompressor::Bzip2;
        let mut out = vec![0; compressor.bound(zeros.len())];
        let size = compressor.compress(&zeros, &mut out)?;
        out.truncate(size);
        if let Some(known) = self.zeros.get_mut(log) {
            *known = Some(out.clone());
        }
        Ok(out)
    }

    fn chunk(&mut self, packed: PackedChunk, out: &mut Vec<Piece>) -> Result<(), CodecError> {
        let PackedChunk {
            mut chunk,
            mut bytes,
            checksum,
        } = packed;
        chunk.offset = self.offset;
        let (compressed, len) = (chunk.packed, chunk.len as u32);
        if self.header.container == Container::Zstd {
            let header = ChunkHeader {
                chunk,
                sequence: self.sequence,
                checksum,
            };
            let head = header.encode(self.header.dump());
            bytes[..head.len()].copy_from_slice(&head);
            self.seek_table.add(head.len() as u32, 0);
            chunk = header.chunk;
        }
        self.seek_table.add(compressed, len);
        self.sequence += 1;
        self.offset += bytes.len() as u64;
        out.push(Piece {
            offset: chunk.offset,
            bytes,
        });
        self.chunks.push(chunk);
        if self.chunks.len() == INDEX_CHUNKS {
            self.end_index(out)?;
        }
        Ok(())
    }

    fn end_index(&mut self, out: &mut Vec<Piece>) -> Result<(), CodecError> {
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
                let (piece, place) = self.add(bytes);
                out.push(piece);
                place.offset
            }
            Container::Bzip2 => {
                // From the end of the core on, which is not known yet.
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

    /// Everything was placed: what must be written before the end.
    pub(super) fn end_chunks(&mut self) -> Result<Vec<Piece>, CodecError> {
        let mut out = Vec::new();
        self.end_run(&mut out)?;
        self.end_index(&mut out)?;
        if !self.waiting.is_empty() {
            for entry in &mut self.directory {
                entry.offset += self.offset;
            }
            let waiting = std::mem::take(&mut self.waiting);
            out.push(self.add(waiting).0);
        }
        Ok(out)
    }

    /// What comes last, and makes the dump a whole one: directory, metadata,
    /// root and seek table.
    pub(super) fn end(mut self, counts: EndCounts, metadata: &[u8]) -> Result<Piece, CodecError> {
        let offset = self.offset;
        let directory = self.record(Tag::Directory, &index::encode_directory(&self.directory))?;
        let (directory, directory_place) = self.add(directory);
        let metadata = self.record(Tag::Metadata, metadata)?;
        let (metadata, metadata_place) = self.add(metadata);
        let root = Root {
            complete: counts.complete,
            chunks: self.sequence,
            dumped: counts.dumped,
            lost: counts.lost,
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
        Ok(Piece { offset, bytes })
    }

    /// The bytes of a record, as they stand in the file.
    fn record(&self, tag: Tag, payload: &[u8]) -> Result<Vec<u8>, CodecError> {
        match self.header.container {
            Container::Zstd => Ok(record::encode(tag, self.header.dump(), payload)),
            Container::Bzip2 => streams::encode(tag, self.header.dump(), payload),
        }
    }

    /// Places bytes behind all others.
    fn add(&mut self, bytes: Vec<u8>) -> (Piece, Place) {
        let place = Place {
            offset: self.offset,
            size: bytes.len() as u64,
        };
        self.seek_table.add(bytes.len() as u32, 0);
        self.offset += place.size;
        let piece = Piece {
            offset: place.offset,
            bytes,
        };
        (piece, place)
    }
}

/// What the root says of the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndCounts {
    pub(super) complete: bool,
    pub(super) dumped: u64,
    pub(super) lost: u64,
}
