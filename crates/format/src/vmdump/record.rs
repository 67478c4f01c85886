//! Records: everything in a vmdump except the data of the core.
//!
//! A record is a tag, the dump's number, a payload and a checksum. In the zstd container each
//! is in a skippable frame, which other readers of zstd ignore; in the bzip2 container it is in
//! a stream after the core.

use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// Magic number of a record's skippable frame (RFC 8878, 3.1.2).
pub const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
/// Mask of the bits that all sixteen skippable magic numbers share.
pub const SKIPPABLE_MASK: u32 = 0xffff_fff0;
/// Size of a skippable frame's head: magic and length.
pub const FRAME_HEAD: usize = 8;
/// Size of a record's head: tag and dump number.
pub const RECORD_HEAD: usize = 16;
/// Size of the checksum after the payload.
pub const CHECKSUM: usize = 8;
/// Size of a record without its payload, with its skippable frame.
pub const OVERHEAD: usize = FRAME_HEAD + RECORD_HEAD + CHECKSUM;
/// Maximum size of a record; the directory of a machine of 1 PiB is smaller.
pub const MAX_RECORD: u32 = 256 << 20;

const LE: Endian = Endian::Little;

/// The kind of a record, from its first eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The description of the dump: the first record.
    Header,
    /// A chunk header.
    Chunk,
    /// An index of about a thousand chunks.
    Index,
    /// The list of index records.
    Directory,
    /// Informational JSON.
    Metadata,
    /// The locations of everything else: the last record.
    Root,
}

impl Tag {
    /// All tags.
    pub const ALL: [Self; 6] = [
        Self::Header,
        Self::Chunk,
        Self::Index,
        Self::Directory,
        Self::Metadata,
        Self::Root,
    ];

    /// The bytes in the file.
    pub const fn bytes(self) -> [u8; 8] {
        *match self {
            Self::Header => b"VMDUMP\r\n",
            Self::Chunk => b"VMDchunk",
            Self::Index => b"VMDindex",
            Self::Directory => b"VMDdirec",
            Self::Metadata => b"VMDmetad",
            Self::Root => b"VMDroot\n",
        }
    }

    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Header => "the vmdump header",
            Self::Chunk => "a chunk header",
            Self::Index => "an index record",
            Self::Directory => "the directory",
            Self::Metadata => "the metadata",
            Self::Root => "the root",
        }
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|tag| bytes == tag.bytes())
    }
}

/// Encodes a record without a skippable frame.
pub fn encode_bare(tag: Tag, dump: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(RECORD_HEAD + payload.len() + CHECKSUM);
    out.extend_from_slice(&tag.bytes());
    out.extend_from_slice(&dump.to_le_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    out
}

/// Encodes a record in a skippable frame.
pub fn encode(tag: Tag, dump: u64, payload: &[u8]) -> Vec<u8> {
    let len = RECORD_HEAD + payload.len() + CHECKSUM;
    let mut out = Vec::with_capacity(FRAME_HEAD + len);
    out.extend_from_slice(&SKIPPABLE_MAGIC.to_le_bytes());
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.extend_from_slice(&encode_bare(tag, dump, payload));
    out
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Kind.
    pub tag: Tag,
    /// Number of the dump that it belongs to.
    pub dump: u64,
    /// Payload.
    pub payload: &'a [u8],
}

/// Decodes a record without a skippable frame; `offset` is its offset in the file, for
/// messages.
pub fn decode_bare(bytes: &[u8], offset: u64) -> Result<Record<'_>, FormatError> {
    let tag = bytes.get(..8).and_then(Tag::of);
    let Some(tag) = tag.filter(|_| bytes.len() >= RECORD_HEAD + CHECKSUM) else {
        return Err(FormatError::unexpected(
            "a vmdump record",
            offset,
            "one of the known tags",
            format!(
                "{:?}",
                String::from_utf8_lossy(&bytes[..bytes.len().min(8)])
            ),
        ));
    };
    let (record, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    let (computed, stored) = (xxh3_64(record), LE.u64(checksum, 0).unwrap_or(0));
    if computed != stored {
        return Err(FormatError::unexpected(
            tag.name(),
            offset,
            format!("bytes with the checksum {stored:#018x}"),
            format!("{computed:#018x}: the record is damaged"),
        ));
    }
    Ok(Record {
        tag,
        dump: LE.u64(record, 8).unwrap_or(0),
        payload: &record[RECORD_HEAD..],
    })
}

/// Returns the length of the skippable frame at the start of `head`, including its head; `None`
/// if it is not such a frame. `head` must have at least eight bytes.
pub fn skippable_len(head: &[u8]) -> Option<u64> {
    let magic = LE.u32(head, 0)?;
    let len = LE.u32(head, 4)?;
    (magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC).then_some(FRAME_HEAD as u64 + u64::from(len))
}

/// Reads the record of kind `tag` in the skippable frame at `offset`. Returns the whole frame,
/// for [`decode`].
pub fn read(file: &(impl ReadAt + ?Sized), tag: Tag, offset: u64) -> Result<Vec<u8>, FormatError> {
    let mut head = [0; FRAME_HEAD];
    file.read_exact_at(tag.name(), offset, &mut head)?;
    let len = skippable_len(&head).filter(|len| *len <= u64::from(MAX_RECORD));
    let Some(len) = len else {
        return Err(FormatError::unexpected(
            tag.name(),
            offset,
            format!("a skippable frame of at most {MAX_RECORD} bytes"),
            format!("{head:x?}"),
        ));
    };
    file.read_vec_at(tag.name(), offset, len)
}

/// Decodes the record of kind `tag` in the skippable frame `frame`, read at `offset`.
pub fn decode(frame: &[u8], tag: Tag, offset: u64) -> Result<Record<'_>, FormatError> {
    let len = skippable_len(frame).unwrap_or(0);
    let body = frame.get(FRAME_HEAD..).unwrap_or_default();
    if len != frame.len() as u64 {
        return Err(FormatError::unexpected(
            tag.name(),
            offset,
            "a skippable frame",
            format!("{:x?}", &frame[..frame.len().min(FRAME_HEAD)]),
        ));
    }
    let record = decode_bare(body, offset)?;
    if record.tag != tag {
        return Err(FormatError::unexpected(
            tag.name(),
            offset,
            tag.name(),
            record.tag.name(),
        ));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_every_flipped_bit_is_detected() {
        let frame = encode(Tag::Index, 7, b"where things are");
        let record = decode(&frame, Tag::Index, 0).unwrap();
        assert_eq!((record.dump, record.payload), (7, &b"where things are"[..]));
        assert_eq!(read(&frame, Tag::Index, 0).unwrap(), frame);
        assert!(decode(&frame, Tag::Root, 0).is_err());
        // The low four bits of the magic number are free.
        for bit in 4..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, Tag::Index, 0).is_err(), "bit {bit}");
        }
        for len in 0..frame.len() {
            assert!(decode(&frame[..len], Tag::Index, 0).is_err(), "{len} bytes");
        }
    }
}
