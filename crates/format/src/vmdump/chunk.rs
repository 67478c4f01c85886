//! Chunk headers, which describe the following zstd frame.

use super::header::{Container, MAX_CHUNK_BYTES, VmdumpHeader};
use super::record::{self, CHECKSUM, FRAME_HEAD, RECORD_HEAD, Record, Tag};
use crate::bytes::Endian;
use crate::error::FormatError;

/// Size of a chunk header's payload without bitmaps.
const FIXED: usize = 40;
/// Flag of a chunk with a bitmap of lost pages.
const FLAG_LOST: u8 = 1;
/// Maximum number of bytes in a chunk of excluded pages.
pub const MAX_RUN: u64 = 1 << 30;

const LE: Endian = Endian::Little;

/// The kind of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// A range of the ELF headers and notes, before the memory.
    Headers,
    /// Pages of memory.
    Pages,
    /// Pages of which none is dumped: zeros.
    Excluded,
}

/// A chunk: its location and contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Kind.
    pub kind: ChunkKind,
    /// Position in the core.
    pub position: u64,
    /// Size in the core, in bytes.
    pub len: u64,
    /// Offset in the file: of its header, or of its stream.
    pub offset: u64,
    /// Compressed size, in bytes.
    pub packed: u32,
    /// Bitmap of dumped pages; for [`ChunkKind::Pages`] only.
    pub dumped: Vec<u8>,
    /// Bitmap of lost pages; empty if there are none.
    pub lost: Vec<u8>,
}

impl Chunk {
    /// End position in the core.
    pub fn end(&self) -> u64 {
        self.position.saturating_add(self.len)
    }

    /// Size of its header in the file; 0 for a bzip2 stream.
    pub fn head_size(&self, container: Container) -> usize {
        match container {
            Container::Zstd => ChunkHeader::size(self),
            Container::Bzip2 => 0,
        }
    }

    /// Returns true if bit `page` of `bits` is set.
    pub fn bit(bits: &[u8], page: u64) -> bool {
        let byte = usize::try_from(page / 8).ok().and_then(|at| bits.get(at));
        byte.is_some_and(|byte| byte >> (page % 8) & 1 == 1)
    }

    /// Encodes the kind and the flags.
    pub(super) fn codes(&self) -> [u8; 2] {
        let kind = match self.kind {
            ChunkKind::Headers => 1,
            ChunkKind::Pages => 2,
            ChunkKind::Excluded => 3,
        };
        [kind, if self.lost.is_empty() { 0 } else { FLAG_LOST }]
    }

    /// Decodes a chunk whose fixed fields are known, with its bitmaps at the start of `rest`.
    /// Returns the number of bytes used as well.
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

/// Size of a bitmap of `pages` pages, a multiple of eight bytes.
pub fn bits_len(pages: u64) -> usize {
    pages.div_ceil(64) as usize * 8
}

/// A chunk header, which precedes each chunk in the zstd container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The chunk; its offset is that of this header.
    pub chunk: Chunk,
    /// Number of the chunk in the whole dump.
    pub sequence: u64,
    /// XXH3 of the compressed bytes.
    pub checksum: u64,
}

impl ChunkHeader {
    /// Size of the header of `chunk`, with its skippable frame.
    pub fn size(chunk: &Chunk) -> usize {
        record::OVERHEAD + FIXED + chunk.dumped.len() + chunk.lost.len()
    }

    /// Encodes the header with its skippable frame, for dump number `dump`.
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

    /// Decodes the header in the record at `offset`.
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

    /// Minimum size of a chunk header.
    pub const MIN_SIZE: usize = FRAME_HEAD + RECORD_HEAD + FIXED + CHECKSUM;
}
