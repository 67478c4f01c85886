//! Index records, and their directory.

use super::chunk::Chunk;
use super::header::VmdumpHeader;
use crate::bytes::Endian;
use crate::error::FormatError;

/// Size of an entry without bitmaps.
const ENTRY: usize = 32;
/// Size of a directory entry.
const DIRECTORY_ENTRY: usize = 32;
/// Maximum number of chunks in an index record.
pub const MAX_ENTRIES: usize = 4096;

const LE: Endian = Endian::Little;

/// Encodes the payload of an index record for `chunks`.
pub fn encode(chunks: &[Chunk]) -> Vec<u8> {
    let mut out = vec![0; 8];
    LE.put_u32(&mut out, 0, chunks.len() as u32);
    for chunk in chunks {
        let mut entry = [0; ENTRY];
        LE.put_u64(&mut entry, 0, chunk.offset);
        LE.put_u64(&mut entry, 8, chunk.position);
        LE.put_u64(&mut entry, 16, chunk.len);
        LE.put_u32(&mut entry, 24, chunk.packed);
        entry[28..30].copy_from_slice(&chunk.codes());
        out.extend_from_slice(&entry);
        out.extend_from_slice(&chunk.dumped);
        out.extend_from_slice(&chunk.lost);
    }
    out
}

/// Decodes the index record at `offset`; returns its chunks in core order.
pub fn decode(
    header: &VmdumpHeader,
    payload: &[u8],
    offset: u64,
) -> Result<Vec<Chunk>, FormatError> {
    let unexpected = |expected: &str, found: String| {
        Err(FormatError::unexpected(
            "an index record",
            offset,
            expected,
            found,
        ))
    };
    let count = LE.u32(payload, 0).unwrap_or(0) as usize;
    if count > MAX_ENTRIES || payload.len() < 8 {
        return unexpected("at most 4096 chunks", count.to_string());
    }
    let mut chunks: Vec<Chunk> = Vec::with_capacity(count);
    let mut rest = &payload[8..];
    for number in 0..count {
        let Some((entry, bits)) = rest.split_at_checked(ENTRY) else {
            return unexpected("as many chunks as it says", number.to_string());
        };
        let u64_at = |at| LE.u64(entry, at).unwrap_or(0);
        let decoded = Chunk::decode(
            header,
            [entry[28], entry[29]],
            (u64_at(8), u64_at(16)),
            (u64_at(0), LE.u32(entry, 24).unwrap_or(0)),
            bits,
        );
        let (chunk, taken) = match decoded {
            Ok(decoded) => decoded,
            Err(expected) => return unexpected(expected, format!("{entry:x?}")),
        };
        if chunks
            .last()
            .is_some_and(|last| last.end() > chunk.position)
        {
            return unexpected("chunks in the order of the core", format!("{entry:x?}"));
        }
        chunks.push(chunk);
        rest = &bits[taken..];
    }
    if !rest.is_empty() {
        return unexpected("nothing behind its chunks", format!("{} bytes", rest.len()));
    }
    Ok(chunks)
}

/// A directory entry: an index record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Offset in the file.
    pub offset: u64,
    /// Size in the file: with its skippable frame, or of its stream.
    pub size: u32,
    /// Number of chunks.
    pub chunks: u32,
    /// Position of its first chunk in the core.
    pub position: u64,
    /// Offset of its first chunk in the file.
    pub first_offset: u64,
}

/// Encodes the payload of the directory.
pub fn encode_directory(entries: &[DirectoryEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * DIRECTORY_ENTRY);
    for entry in entries {
        let mut bytes = [0; DIRECTORY_ENTRY];
        LE.put_u64(&mut bytes, 0, entry.offset);
        LE.put_u32(&mut bytes, 8, entry.size);
        LE.put_u32(&mut bytes, 12, entry.chunks);
        LE.put_u64(&mut bytes, 16, entry.position);
        LE.put_u64(&mut bytes, 24, entry.first_offset);
        out.extend_from_slice(&bytes);
    }
    out
}

/// Decodes the directory at `offset`.
pub fn decode_directory(payload: &[u8], offset: u64) -> Result<Vec<DirectoryEntry>, FormatError> {
    let mut entries: Vec<DirectoryEntry> = Vec::with_capacity(payload.len() / DIRECTORY_ENTRY);
    for bytes in payload.chunks(DIRECTORY_ENTRY) {
        let u64_at = |at| LE.u64(bytes, at);
        let u32_at = |at| LE.u32(bytes, at).unwrap_or(0);
        let entry = u64_at(24).map(|first_offset| DirectoryEntry {
            offset: u64_at(0).unwrap_or(0),
            size: u32_at(8),
            chunks: u32_at(12),
            position: u64_at(16).unwrap_or(0),
            first_offset,
        });
        let in_order = |entry: &DirectoryEntry| {
            entries
                .last()
                .is_none_or(|last| last.position < entry.position && last.offset < entry.offset)
        };
        match entry.filter(in_order) {
            Some(entry) => entries.push(entry),
            None => {
                return Err(FormatError::unexpected(
                    "the directory",
                    offset,
                    "index records in the order of the core",
                    format!("{bytes:x?}"),
                ));
            }
        }
    }
    Ok(entries)
}
