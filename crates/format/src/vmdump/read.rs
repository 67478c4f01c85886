//! Reads and verifies chunks of a vmdump.

use super::chunk::{Chunk, ChunkHeader, ChunkKind};
use super::codec::{ChunkDecompressor, checksum};
use super::file::VmdumpFile;
use super::header::Container;
use super::record::{self, Tag};
use super::zeros;
use crate::error::FormatError;

impl VmdumpFile {
    /// Reads `chunk` and decompresses it into `out`; `packed` is a buffer for its compressed
    /// bytes. Its header, the compressed and the decompressed bytes are verified.
    pub fn read_chunk(
        &self,
        chunk: &Chunk,
        decompressor: &mut ChunkDecompressor,
        packed: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let head = self.read_packed(chunk, packed)?;
        unpack(chunk, decompressor, &packed[head..], out).map_err(|reason| FormatError::Codec {
            codec: self.header().container.name(),
            offset: chunk.offset + head as u64,
            reason,
        })
    }

    /// Reads `chunk` with its header into `packed`, verifies the header and the compressed
    /// bytes, and returns the size of the header.
    pub fn read_packed(&self, chunk: &Chunk, packed: &mut Vec<u8>) -> Result<usize, FormatError> {
        let container = self.header().container;
        let head = chunk.head_size(container);
        let len = head + chunk.packed as usize;
        if chunk.offset.saturating_add(len as u64) > self.bytes().size() {
            return Err(FormatError::Truncated {
                what: "a chunk",
                offset: chunk.offset,
                needed: len as u64,
                size: self.bytes().size(),
            });
        }
        packed.resize(len, 0);
        self.bytes()
            .read_exact_at("a chunk", chunk.offset, packed)?;
        if container == Container::Zstd {
            let (frame, data) = packed.split_at(head);
            self.check_head(chunk, frame, data)?;
        }
        Ok(head)
    }

    /// Verifies the header of `chunk` in its frame, and the compressed bytes.
    fn check_head(&self, chunk: &Chunk, frame: &[u8], data: &[u8]) -> Result<(), FormatError> {
        let record = record::decode(frame, Tag::Chunk, chunk.offset)?;
        let header = ChunkHeader::decode(self.header(), &record, chunk.offset)?;
        if header.chunk != *chunk || record.dump != self.header().dump() {
            return Err(FormatError::unexpected(
                "a chunk header",
                chunk.offset,
                format!("what the index says: {}", describe(chunk)),
                describe(&header.chunk),
            ));
        }
        self.check_packed(&header, data)
    }

    /// Verifies the compressed bytes of a chunk against its header.
    fn check_packed(&self, header: &ChunkHeader, data: &[u8]) -> Result<(), FormatError> {
        let found = checksum(data);
        let chunk = &header.chunk;
        let offset = chunk.offset + ChunkHeader::size(chunk) as u64;
        if found != header.checksum {
            return Err(FormatError::unexpected(
                "the data of a chunk",
                offset,
                format!("bytes with the checksum {:#018x}", header.checksum),
                format!("{found:#018x}: the chunk is damaged"),
            ));
        }
        if chunk.kind == ChunkKind::Excluded && data != zeros::zstd_frame(chunk.len as u32) {
            return Err(FormatError::unexpected(
                "a run of excluded pages",
                offset,
                "the frame that stands for zeros",
                "other bytes",
            ));
        }
        Ok(())
    }

    /// Reads the core's ELF headers and notes.
    pub fn core_headers(&self) -> Result<Vec<u8>, FormatError> {
        let what = "the ELF headers of the core";
        let wanted = self.header().memory_offset;
        FormatError::check_memory(what, 0, wanted)?;
        let mut headers: Vec<u8> = Vec::new();
        let mut decompressor = self.decompressor()?;
        let (mut packed, mut out) = (Vec::new(), Vec::new());
        for group in 0..self.chunk_groups() {
            for chunk in self.chunks(group)? {
                if headers.len() as u64 == wanted {
                    return Ok(headers);
                }
                if chunk.kind != ChunkKind::Headers || chunk.position != headers.len() as u64 {
                    break;
                }
                self.read_chunk(&chunk, &mut decompressor, &mut packed, &mut out)?;
                headers.extend_from_slice(&out);
            }
            if headers.len() as u64 == wanted {
                return Ok(headers);
            }
        }
        Err(FormatError::Truncated {
            what,
            offset: 0,
            needed: wanted,
            size: headers.len() as u64,
        })
    }

    /// Creates a decompressor for the chunks.
    pub fn decompressor(&self) -> Result<ChunkDecompressor, FormatError> {
        ChunkDecompressor::new(self.header().container).map_err(|error| FormatError::Codec {
            codec: self.header().container.name(),
            offset: 0,
            reason: error.to_string(),
        })
    }
}

/// Decompresses the bytes of `chunk`.
fn unpack(
    chunk: &Chunk,
    decompressor: &mut ChunkDecompressor,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    if chunk.kind == ChunkKind::Excluded {
        return Err("none of its pages is dumped".into());
    }
    // The size was bounded when the chunk was found.
    out.resize(chunk.len as usize, 0);
    decompressor
        .decompress(data, out)
        .map_err(|error| error.to_string())
}

fn describe(chunk: &Chunk) -> String {
    format!(
        "{} bytes that are {} bytes of the core at {:#x}",
        chunk.packed, chunk.len, chunk.position
    )
}
