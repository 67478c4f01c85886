//! The one place where chunks get their order: numbers, runs of excluded pages,
//! and in which file each goes.

use bigiron_format::codec::CodecError;
use bigiron_format::vmdump::{
    Chunk, ChunkCompressor, ChunkKind, Container, MAX_RUN, VmdumpHeader, codec, zeros,
};

use super::place_part::PartPlacer;

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
#[derive(Clone)]
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
    /// The number of the file.
    pub(super) part: usize,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// Gives everything its place: chunks of pages go to the files in turn.
pub(super) struct Placer {
    container: Container,
    parts: Vec<PartPlacer>,
    /// The file of the next chunk.
    turn: usize,
    sequence: u64,
    /// Pages of which none is dumped, not placed yet: position and length.
    run: Option<(u64, u64)>,
    /// Streams of zeros by the logarithm of their length.
    zeros: Vec<Option<Vec<u8>>>,
}

impl Placer {
    /// A placer for a dump in as many files as `header` says, and the headers,
    /// where those come first.
    pub(super) fn new(header: &VmdumpHeader) -> (Self, Vec<Piece>) {
        let count = header.stripe.1;
        let mut parts = Vec::with_capacity(usize::from(count));
        let mut first = Vec::new();
        for index in 0..count {
            let (part, piece) = PartPlacer::new(VmdumpHeader {
                stripe: (index, count),
                ..header.clone()
            });
            parts.push(part);
            first.extend(piece);
        }
        let placer = Self {
            container: header.container,
            parts,
            turn: 0,
            sequence: 0,
            run: None,
            zeros: vec![None; zeros::MAX_BZIP2.ilog2() as usize + 1],
        };
        (placer, first)
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
            let (len, zeros) = match self.container {
                Container::Zstd => {
                    let len = left.min(MAX_RUN);
                    (len, zeros::zstd_frame(len as u32))
                }
                Container::Bzip2 => {
                    let len = zeros::bzip2_stream_len(left);
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
            let mut bytes = vec![0; chunk.head_size(self.container)];
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

    /// Places a chunk in the file whose turn it is. The headers of the core go
    /// into all, so that each can be read without the others; excluded pages take
    /// no room, and no turn.
    fn chunk(&mut self, packed: PackedChunk, out: &mut Vec<Piece>) -> Result<(), CodecError> {
        let sequence = self.sequence;
        self.sequence += 1;
        if packed.chunk.kind == ChunkKind::Headers {
            for part in &mut self.parts {
                part.chunk(packed.clone(), sequence, out)?;
            }
            return Ok(());
        }
        let turn = self.turn;
        if packed.chunk.kind == ChunkKind::Pages {
            self.turn = (turn + 1) % self.parts.len();
        }
        self.parts[turn].chunk(packed, sequence, out)
    }

    /// Everything was placed: what must be written before the end.
    pub(super) fn end_chunks(&mut self) -> Result<Vec<Piece>, CodecError> {
        let mut out = Vec::new();
        self.end_run(&mut out)?;
        for part in &mut self.parts {
            part.end_chunks(&mut out)?;
        }
        Ok(out)
    }

    /// What comes last, and makes the dump a whole one: the end of each file.
    pub(super) fn end(self, complete: bool, metadata: &[u8]) -> Result<Vec<Piece>, CodecError> {
        let parts = self.parts.into_iter();
        parts.map(|part| part.end(complete, metadata)).collect()
    }
}
