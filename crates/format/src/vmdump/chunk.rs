//! Chunk headers: what the zstd frame behind each is.

use super::header::{Container, MAX_CHUNK_BYTES, VmdumpHeader};
use super::record::{self, CHECKSUM, FRAME_HEAD, RECORD_HEAD, Record, Tag};
use crate::bytes::Endian;
use crate::error::FormatError;

/// Bytes of a chunk header's payload in front of the bits.
const FIXED: usize = 40;
/// The flag of a chunk that has bits of lost pages too.
const FLAG_LOST: u8 = 1;
/// Bytes of a run of excluded pages in one chunk, at most.
pub const MAX_RUN: u64 = 1 << 30;

const LE: Endian = Endian::Little;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// A part of the ELF headers and notes, in front of the memory.
    Headers,
    /// Pages of memory.
    Pages,
    /// Pages of which none is dumped: zeros.
    Excluded,
}

/// A chunk: where it is and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// What it holds.
    pub kind: ChunkKind,
    /// Where it begins in the core.
    pub position: u64,
    /// Its bytes in the core.
    pub len: u64,
    /// Where it begins in the file: its header, or its stream.
    pub offset: u64,
    /// Its compressed bytes.
    pub packed: u32,
    /// A bit for each page that is dumped; of [`ChunkKind::Pages`] only.
    pub dumped: Vec<u8>,
    /// A bit for each page that is lost; empty if none is.
    pub lost: Vec<u8>,
}

impl Chunk {
    /// Behind its last byte in the core.
    pub fn end(&self) -> u64 {
        self.position.saturating_add(self.len)
    }

    /// Bytes in front of its compressed ones that belong to it: its header. A
    /// bzip2 stream has none.
    pub fn head_size(&self, container: Container) -> usize {
        match container {
            Container::Zstd => ChunkHeader::size(self),
            Container::Bzip2 => 0,
        }
    }

    /// Whether bit `page` of `bits` is set.
    pub fn bit(bits: &[u8], page: u64) -> bool {
        let byte = usize::try_from(page / 8).ok().and_then(|at| bits.get(at));
        byte.is_some_and(|byte| byte >> (page % 8) & 1 == 1)
    }

    /// The kind and the flags in the file.
    pub(super) fn codes(&self) -> [u8; 2] {
        let kind = match self.kind {
            ChunkKind::Headers => 1,
            ChunkKind::Pages => 2,
            ChunkKind::Excluded => 3,
        };
        [kind, if self.lost.is_empty() { 0 } else { FLAG_LOST }]
    }

    /// Takes the chunk whose fixed fields are known, and its bits from the
    /// front of `rest`. Gives the bytes taken.
    pub(super) fn decode(
        header: &VmdumpHeader,
        codes: [u8; 2],
        place: (u64, u64),
        stored: (u64, u32),
        rest: &[u8],
    ) -> Result<(Self, usize), &'static str> {
        let kind = match codes[0] {
            1 => ChunkKind::Headers,
            2 => ChunkKind::Pages,
            3 => ChunkKind::Excluded,
            _ => return Err("a kind from 1 to 3"),
        };
        let (position, len) = place;
        let end = position.checked_add(len).ok_or("an end below 2^64")?;
        let most = match kind {
            ChunkKind::Headers => MAX_CHUNK_BYTES,
            ChunkKind::Pages => header.chunk_bytes(),
            ChunkKind::Excluded => MAX_RUN,
        };
        if len == 0 || len > most {
            return Err("a length of at least one byte and at most a chunk");
        }
        let in_place = match kind {
            ChunkKind::Headers => end <= header.memory_offset,
            _ => {
                position >= header.memory_offset
                    && end <= header.core_size
                    && position.is_multiple_of(header.page_size())
                    && len.is_multiple_of(header.page_size())
            }
        };
        if !in_place {
            return Err("whole pages within the core, or headers in front of them");
        }
        let (mut dumped, mut lost, mut taken) = (Vec::new(), Vec::new(), 0);
        if kind == ChunkKind::Pages {
            let bytes = bits_len(len >> header.page_shift);
            dumped = rest.get(..bytes).ok_or("a bit for each page")?.to_vec();
            taken = bytes;
            if codes[1] & FLAG_LOST != 0 {
                lost = rest
                    .get(bytes..2 * bytes)
                    .ok_or("a bit for each page")?
                    .to_vec();
                taken = 2 * bytes;
            }
        }
        let (offset, packed) = stored;
        let chunk = Self {
            kind,
            position,
            len,
            offset,
            packed,
            dumped,
            lost,
        };
        Ok((chunk, taken))
    }
}

/// Bytes of the bits of `pages` pages, a multiple of eight.
pub fn bits_len(pages: u64) -> usize {
    pages.div_ceil(64) as usize * 8
}

/// A chunk header, which stands in front of each chunk of the zstd container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The chunk; its offset is that of this header.
    pub chunk: Chunk,
    /// Chunks before it in the whole dump.
    pub sequence: u64,
    /// XXH3 of the compressed bytes.
    pub checksum: u64,
}

impl ChunkHeader {
    /// Bytes of the header of `chunk`, with its skippable frame.
    pub fn size(chunk: &Chunk) -> usize {
        record::OVERHEAD + FIXED + chunk.dumped.len() + chunk.lost.len()
    }

    /// The header with its skippable frame, for a dump of number `dump`.
    pub fn encode(&self, dump: u64) -> Vec<u8> {
        let chunk = &self.chunk;
        let mut payload = vec![0; FIXED];
        payload[..2].copy_from_slice(&chunk.codes());
        LE.put_u32(&mut payload, 4, chunk.packed);
        LE.put_u64(&mut payload, 8, self.sequence);
        LE.put_u64(&mut payload, 16, chunk.position);
        LE.put_u64(&mut payload, 24, chunk.len);
        LE.put_u64(&mut payload, 32, self.checksum);
        payload.extend_from_slice(&chunk.dumped);
        payload.extend_from_slice(&chunk.lost);
        record::encode(Tag::Chunk, dump, &payload)
    }

    /// The header in the record at `offset`.
    pub fn decode(
        header: &VmdumpHeader,
        record: &Record,
        offset: u64,
    ) -> Result<Self, FormatError> {
        let payload = record.payload;
        let unexpected = |expected: &str| {
            let found = format!("{:x?}", &payload[..payload.len().min(FIXED)]);
            FormatError::unexpected("a chunk header", offset, expected, found)
        };
        if payload.len() < FIXED {
            return Err(unexpected("at least 40 bytes"));
        }
        let u64_at = |at| LE.u64(payload, at).unwrap_or(0);
        let packed = LE.u32(payload, 4).unwrap_or(0);
        let (chunk, _) = Chunk::decode(
            header,
            [payload[0], payload[1]],
            (u64_at(16), u64_at(24)),
            (offset, packed),
            &payload[FIXED..],
        )
        .map_err(unexpected)?;
        Ok(Self {
            chunk,
            sequence: u64_at(8),
            checksum: u64_at(32),
        })
    }

    /// Bytes of a chunk header at least.
    pub const LEAST: usize = FRAME_HEAD + RECORD_HEAD + FIXED + CHECKSUM;
}
