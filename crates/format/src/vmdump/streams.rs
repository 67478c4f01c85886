//! The bzip2 container: concatenated streams of the core, followed by the records, each in its
//! own stream.

use super::chunk::{Chunk, ChunkKind, bits_len};
use super::codec::{Bunzip2, ChunkCompressor};
use super::extent::Extent;
use super::header::{Container, MAX_CHUNK_BYTES, VmdumpHeader};
use super::record::{self, Tag};
use super::zeros::MAX_BZIP2;
use crate::bytes::ReadAt;
use crate::codec::CodecError;
use crate::elf::CoreHeaders;
use crate::error::FormatError;
use crate::kdump::Utsname;
use crate::vmcoreinfo::Vmcoreinfo;

/// The start of a stream with data: its head at level 9, and its first block's.
pub const SIGNATURE: [u8; 10] = *b"BZh91AY&SY";
/// Data of a block at level 9 that fits whatever it contains.
pub const BLOCK: u32 = 900_000 - 19;
/// Bytes of the file read at once, at first and at most: a stream may have some tens of bytes.
const FIRST_READ: usize = 4 << 10;
const MAX_READ: usize = 1 << 20;

/// Encodes a record as a stream.
pub fn encode(tag: Tag, dump: u64, payload: &[u8]) -> Result<Vec<u8>, CodecError> {
    let record = record::encode_bare(tag, dump, payload);
    let mut compressor = ChunkCompressor::Bzip2;
    let mut out = vec![0; compressor.bound(record.len())];
    let len = compressor.compress(&record, &mut out)?;
    out.truncate(len);
    Ok(out)
}

/// Reads the stream at `extent`, which unpacks to at most `most` bytes.
pub fn read(
    file: &(impl ReadAt + ?Sized),
    what: &'static str,
    extent: Extent,
    most: u64,
) -> Result<Vec<u8>, FormatError> {
    let packed = file.read_vec_at(what, extent.offset, extent.size)?;
    let mut stream = Bunzip2::new();
    let mut out = vec![0; 4096];
    let error = |reason: String| FormatError::Codec {
        codec: "bzip2",
        offset: extent.offset,
        reason,
    };
    loop {
        let rest = &packed[stream.read() as usize..];
        let ended = stream
            .go_on(rest, &mut out)
            .map_err(|e| error(e.to_string()))?;
        let written = stream.written();
        if ended {
            out.truncate(written as usize);
            return Ok(out);
        }
        if written < out.len() as u64 {
            return Err(error("the stream is cut off".into()));
        }
        if out.len() as u64 >= most {
            return Err(error(format!("more than {most} bytes in it")));
        }
        out.resize(((out.len() * 4) as u64).min(most) as usize, 0);
    }
}

/// The contents of a file without a root.
pub(super) struct Scanned {
    pub(super) header: VmdumpHeader,
    pub(super) chunks: Vec<Chunk>,
    /// The reason why it ends there.
    pub(super) damage: Option<FormatError>,
}

/// Decompresses a file without a root, the only way to find the position of each stream and the
/// pages that are not zero.
pub(super) fn scan(file: &(impl ReadAt + ?Sized)) -> Result<Scanned, FormatError> {
    let mut front = Vec::new();
    let mut offset = 0;
    let mut streams: Vec<(u64, u32, usize)> = Vec::new();
    let mut out = Vec::new();
    let header = loop {
        let (packed, len) = next_stream(file, offset, &mut out)?;
        streams.push((offset, packed, len));
        offset += u64::from(packed);
        let size = (front.len() + len) as u64;
        FormatError::check_memory("the ELF headers of the core", 0, size)?;
        front.extend_from_slice(&out[..len]);
        match header_of(&front) {
            Ok(header) if header.memory_offset <= front.len() as u64 => break header,
            Ok(_) | Err(FormatError::Truncated { .. }) => {}
            Err(error) => return Err(error),
        }
    };
    let mut chunks = Vec::new();
    let mut position = 0;
    for (offset, packed, len) in streams {
        chunks.push(Chunk {
            kind: ChunkKind::Headers,
            position,
            len: len as u64,
            offset,
            packed,
            dumped: Vec::new(),
            lost: Vec::new(),
        });
        position += len as u64;
    }
    if position != header.memory_offset {
        return Err(FormatError::unexpected(
            "the streams of the ELF headers",
            0,
            format!("{} bytes", header.memory_offset),
            position.to_string(),
        ));
    }
    let mut damage = None;
    while position < header.core_size {
        let (packed, len) = match next_stream(file, offset, &mut out) {
            Ok(stream) => stream,
            Err(error) => {
                damage = Some(error);
                break;
            }
        };
        // The end of a dump that was repaired and truncated again.
        if record::decode_bare(&out[..len], offset).is_ok() {
            break;
        }
        let pages = len as u64 >> header.page_shift;
        if pages << header.page_shift != len as u64 || position + len as u64 > header.core_size {
            break;
        }
        let mut chunk = Chunk {
            kind: ChunkKind::Excluded,
            position,
            len: len as u64,
            offset,
            packed,
            dumped: Vec::new(),
            lost: Vec::new(),
        };
        if out[..len].iter().any(|byte| *byte != 0) {
            chunk.kind = ChunkKind::Pages;
            chunk.dumped = vec![0; bits_len(pages)];
            let pages = out[..len].chunks(1 << header.page_shift);
            for (page, bytes) in pages.enumerate() {
                if bytes.iter().any(|byte| *byte != 0) {
                    chunk.dumped[page / 8] |= 1 << (page % 8);
                }
            }
        }
        chunks.push(chunk);
        position += len as u64;
        offset += u64::from(packed);
    }
    Ok(Scanned {
        header,
        chunks,
        damage,
    })
}

/// Decompresses the stream at `offset` to the front of `out`; returns its compressed and
/// decompressed size.
fn next_stream(
    file: &(impl ReadAt + ?Sized),
    offset: u64,
    out: &mut Vec<u8>,
) -> Result<(u32, usize), FormatError> {
    out.resize(MAX_CHUNK_BYTES.max(MAX_BZIP2) as usize, 0);
    let error = |reason: String| FormatError::Codec {
        codec: "bzip2",
        offset,
        reason,
    };
    let mut stream = Bunzip2::new();
    let mut buffer = Vec::new();
    let mut wanted = FIRST_READ;
    loop {
        let at = offset + stream.read();
        let len = (file.size().saturating_sub(at)).min(wanted as u64) as usize;
        wanted = (wanted * 2).min(MAX_READ);
        if len == 0 {
            return Err(FormatError::Truncated {
                what: "a bzip2 stream",
                offset,
                needed: stream.read() + 1,
                size: file.size(),
            });
        }
        buffer.resize(len, 0);
        file.read_exact_at("a bzip2 stream", at, &mut buffer)?;
        if stream
            .go_on(&buffer, out)
            .map_err(|e| error(e.to_string()))?
        {
            let packed = u32::try_from(stream.read());
            let packed = packed.map_err(|_| error("longer than 4 GiB".into()))?;
            return Ok((packed, stream.written() as usize));
        }
        if stream.written() == out.len() as u64 {
            let reason = "more than 16 MiB in one stream: no vmdump; unpack it with bzip2 -d";
            return Err(error(reason.into()));
        }
    }
}

/// Derives the header from the ELF headers of a core.
fn header_of(front: &Vec<u8>) -> Result<VmdumpHeader, FormatError> {
    let core = CoreHeaders::read(front)?;
    let note = core.notes().vmcoreinfo().ok().flatten();
    let page_shift = note
        .and_then(|note| Vmcoreinfo::parse(note.desc, 0).ok())
        .and_then(|info| info.page_shift())
        .unwrap_or(12);
    let first = core
        .segments
        .iter()
        .map(|segment| segment.file_offset)
        .min();
    let ends = core
        .segments
        .iter()
        .map(|segment| segment.file_offset + segment.file_size);
    let header = VmdumpHeader {
        container: Container::Bzip2,
        page_shift,
        machine: core.machine,
        endian: core.endian,
        // All that is known is that zero pages count as excluded.
        dump_level: 1,
        chunk_pages: (MAX_CHUNK_BYTES >> page_shift) as u32,
        memory_offset: first.unwrap_or(0),
        core_size: ends.max().unwrap_or(0),
        time: 0,
        id: [0; 16],
        stripe: (0, 1),
        utsname: Utsname::default(),
    };
    // Checks it by the rules for a header in a file.
    VmdumpHeader::decode(&header.encode(), 0)
}

/// Returns the container of a dump that starts with `front`, if it is one.
pub fn container_of(front: &[u8]) -> Option<Container> {
    let tag = front.get(8..16) == Some(&Tag::Header.bytes());
    if tag && record::skippable_len(front).is_some() {
        Some(Container::Zstd)
    } else if front.starts_with(&SIGNATURE) {
        Some(Container::Bzip2)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;
    use crate::failing::Failing;

    #[test]
    fn short_streams_are_read_in_proportion_to_their_size() {
        let stream = encode(Tag::Metadata, 1, b"").unwrap();
        let count = 200;
        let file = Failing::new(stream.repeat(count), Vec::new());
        let (mut offset, mut out) = (0, Vec::new());
        for _ in 0..count {
            let (packed, _) = next_stream(&file, offset, &mut out).unwrap();
            assert_eq!(packed as usize, stream.len());
            offset += u64::from(packed);
        }
        assert!(file.bytes_read() <= (count * FIRST_READ) as u64);
    }
}
