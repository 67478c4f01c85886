//! Assigns chunks their order: numbers, runs of excluded pages, and parts.

use bigiron_format::codec::CodecError;
use bigiron_format::vmdump::{
    Chunk, ChunkCompressor, ChunkKind, Container, MAX_RUN, VmdumpHeader, codec, zeros,
};

use super::packed::{Packed, PackedChunk, PlacedRecord};
use super::part_placer::PartPlacer;

/// Assigns records their parts and offsets: chunks of pages go to the parts in turn.
pub(super) struct Placer {
    container: Container,
    parts: Vec<PartPlacer>,
    /// Part of the next chunk.
    turn: usize,
    sequence: u64,
    /// Excluded pages that are not placed yet: position and length.
    run: Option<(u64, u64)>,
    /// bzip2 streams of zeros by the logarithm of their length.
    zeros: Vec<Option<Vec<u8>>>,
}

impl Placer {
    /// Creates the placer of a dump with the number of parts in `header`; returns the headers
    /// that come first.
    pub(super) fn new(header: &VmdumpHeader) -> (Self, Vec<PlacedRecord>) {
        let count = header.stripe.1;
        let mut parts = Vec::with_capacity(usize::from(count));
        let mut first = Vec::new();
        for index in 0..count {
            let (part, record) = PartPlacer::new(VmdumpHeader {
                stripe: (index, count),
                ..header.clone()
            });
            parts.push(part);
            first.extend(record);
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

    /// Places the next chunk; adds the records to write to `out`.
    pub(super) fn place(
        &mut self,
        packed: Packed,
        out: &mut Vec<PlacedRecord>,
    ) -> Result<(), CodecError> {
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

    /// Places the run of excluded pages.
    fn end_run(&mut self, out: &mut Vec<PlacedRecord>) -> Result<(), CodecError> {
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

    /// Places a chunk in the part whose turn it is. The headers of the core go to all parts, so
    /// that each can be read without the others; excluded pages take no room and no turn.
    fn chunk(
        &mut self,
        packed: PackedChunk,
        out: &mut Vec<PlacedRecord>,
    ) -> Result<(), CodecError> {
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

    /// Ends the chunks; returns what must be written before the end.
    pub(super) fn end_chunks(&mut self) -> Result<Vec<PlacedRecord>, CodecError> {
        let mut out = Vec::new();
        self.end_run(&mut out)?;
        for part in &mut self.parts {
            part.end_chunks(&mut out)?;
        }
        Ok(out)
    }

    /// Returns the end of each part, which must be written last.
    pub(super) fn end(
        self,
        complete: bool,
        metadata: &[u8],
    ) -> Result<Vec<PlacedRecord>, CodecError> {
        let parts = self.parts.into_iter();
        parts.map(|part| part.end(complete, metadata)).collect()
    }
}
