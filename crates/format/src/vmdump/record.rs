//! Records: everything in a vmdump that is not a piece of the core.
//!
//! A record is a tag, the dump's number, a payload and a checksum. In the zstd
//! container each stands in a skippable frame, which every other reader of
//! zstd passes over; in the bzip2 container in a stream behind the core.

use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// The magic number of a record's skippable frame (RFC 8878, 3.1.2).
pub const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
/// The mask that leaves what all sixteen skippable magic numbers share.
pub const SKIPPABLE_MASK: u32 = 0xffff_fff0;
/// Bytes of a skippable frame in front of what is skipped: magic and length.
pub const FRAME_HEAD: usize = 8;
/// Bytes of a record in front of its payload: tag and dump number.
pub const RECORD_HEAD: usize = 16;
/// Bytes of the checksum behind the payload.
pub const CHECKSUM: usize = 8;
/// What a record takes beside its payload, with its skippable frame.
pub const OVERHEAD: usize = FRAME_HEAD + RECORD_HEAD + CHECKSUM;
/// No record is longer; a directory of a machine of 1 PiB is shorter.
pub const MAX_RECORD: u32 = 256 << 20;

const LE: Endian = Endian::Little;

/// What a record is, by its first eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// What the dump is: the first record.
    Header,
    /// In front of each piece of the core.
    Chunk,
    /// Where about a thousand chunks are.
    Index,
    /// Where the index records are.
    Directory,
    /// What people want to know, as JSON.
    Metadata,
    /// Where everything else is: the last record.
    Root,
}

impl Tag {
    /// Every tag.
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

    /// A word for messages.
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

/// The bytes of a record without a skippable frame.
pub fn encode_bare(tag: Tag, dump: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(RECORD_HEAD + payload.len() + CHECKSUM);
    out.extend_from_slice(&tag.bytes());
    out.extend_from_slice(&dump.to_le_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    out
}

/// The bytes of a record in a skippable frame.
pub fn encode(tag: Tag, dump: u64, payload: &[u8]) -> Vec<u8> {
    let len = RECORD_HEAD + payload.len() + CHECKSUM;
    let mut out = Vec::with_capacity(FRAME_HEAD + len);
    out.extend_from_slice(&SKIPPABLE_MAGIC.to_le_bytes());
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.extend_from_slice(&encode_bare(tag, dump, payload));
    out
}

/// A record as it stands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub tag: Tag,
    /// The number of the dump that it belongs to.
    pub dump: u64,
    /// What it says.
    pub payload: &'a [u8],
}

/// Takes a record without its skippable frame; `offset` is where it begins in
/// the file, for messages.
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

/// The length of the skippable frame at the front of `head`, with its head;
/// `None` if it is no such frame. `head` must have at least eight bytes.
pub fn skippable_len(head: &[u8]) -> Option<u64> {
    let magic = LE.u32(head, 0)?;
    let len = LE.u32(head, 4)?;
    (magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC).then_some(FRAME_HEAD as u64 + u64::from(len))
}

/// Reads the record in the skippable frame at `offset`, which must be of kind
/// `tag`. Gives the whole frame; [`decode`] takes the record out of it.
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

/// Takes the record out of the skippable frame `frame`, which stands at
/// `offset` and must be of kind `tag`.
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
    fn records_come_back_and_every_flipped_bit_is_found() {
        let frame = encode(Tag::Index, 7, b"where things are");
        let record = decode(&frame, Tag::Index, 0).unwrap();
        assert_eq!((record.dump, record.payload), (7, &b"where things are"[..]));
        assert_eq!(read(&frame, Tag::Index, 0).unwrap(), frame);
        assert!(decode(&frame, Tag::Root, 0).is_err());
        // The low four bits of the magic number may be anything to others.
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
