//! The root: the last record, which locates everything else.

use super::header::{Container, HEADER_SIZE, VmdumpHeader};
use super::record::{self, CHECKSUM, FRAME_HEAD, RECORD_HEAD, Tag};
use super::{seek_table, streams};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// Size of the root's own fields, before the copy of the header.
const FIXED: usize = 64;
/// Size of the root's payload.
const PAYLOAD: usize = FIXED + HEADER_SIZE + 8;
/// Size of the root with its skippable frame.
pub const ROOT_SIZE: usize = record::OVERHEAD + PAYLOAD;
/// Flag of a complete dump.
const FLAG_COMPLETE: u32 = 1;

const LE: Endian = Endian::Little;

/// An extent of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Offset.
    pub offset: u64,
    /// Size, in bytes.
    pub size: u64,
}

/// The contents of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// All pages are there: none is lost, and the source had no damage.
    pub complete: bool,
    /// Chunks in the file.
    pub chunks: u64,
    /// Dumped pages.
    pub dumped: u64,
    /// Lost pages.
    pub lost: u64,
    /// Extent of the directory's frame or stream.
    pub directory: Extent,
    /// Extent of the metadata's frame or stream.
    pub metadata: Extent,
    /// A copy of the header.
    pub header: VmdumpHeader,
}

impl Root {
    /// Encodes the payload of the root's record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; PAYLOAD];
        LE.put_u32(&mut out, 0, if self.complete { FLAG_COMPLETE } else { 0 });
        LE.put_u64(&mut out, 8, self.chunks);
        LE.put_u64(&mut out, 16, self.dumped);
        LE.put_u64(&mut out, 24, self.lost);
        LE.put_u64(&mut out, 32, self.directory.offset);
        LE.put_u64(&mut out, 40, self.directory.size);
        LE.put_u64(&mut out, 48, self.metadata.offset);
        LE.put_u64(&mut out, 56, self.metadata.size);
        out[FIXED..FIXED + HEADER_SIZE].copy_from_slice(&self.header.encode());
        // The length of the record with its frame, for readers that start at the end.
        LE.put_u32(&mut out, PAYLOAD - 8, ROOT_SIZE as u32);
        LE.put_u32(&mut out, PAYLOAD - 4, HEADER_SIZE as u32);
        out
    }

    /// Decodes the payload of the root at `offset`.
    pub fn decode(payload: &[u8], offset: u64) -> Result<Self, FormatError> {
        let u64_at = |at| LE.u64(payload, at).unwrap_or(0);
        let header = payload.get(FIXED..).and_then(|rest| {
            let header = LE.u32(payload, payload.len() - 4)? as usize;
            rest.get(..header)
        });
        let Some(header) = header else {
            return Err(FormatError::unexpected(
                "the root",
                offset,
                format!("at least {PAYLOAD} bytes"),
                payload.len().to_string(),
            ));
        };
        Ok(Self {
            complete: LE.u32(payload, 0).unwrap_or(0) & FLAG_COMPLETE != 0,
            chunks: u64_at(8),
            dumped: u64_at(16),
            lost: u64_at(24),
            directory: Extent {
                offset: u64_at(32),
                size: u64_at(40),
            },
            metadata: Extent {
                offset: u64_at(48),
                size: u64_at(56),
            },
            header: VmdumpHeader::decode(header, offset)?,
        })
    }

    /// Finds the root at the end of `file`.
    pub fn find(
        file: &(impl ReadAt + ?Sized),
        container: Container,
    ) -> Result<Option<(u64, Self)>, FormatError> {
        match container {
            Container::Zstd => Self::find_frame(file),
            Container::Bzip2 => streams::find_root(file),
        }
    }

    /// Finds the root from the end of `file`: before the seek table, or last. Returns its
    /// extent and contents; `None` if there is none.
    fn find_frame(file: &(impl ReadAt + ?Sized)) -> Result<Option<(u64, Self)>, FormatError> {
        let size = file.size();
        let end = match seek_table::find(file)? {
            Some(table) => table.offset,
            None => size,
        };
        // The length of the root's frame precedes its checksum.
        let tail = (8 + CHECKSUM) as u64;
        let Some(tail_offset) = end.checked_sub(tail) else {
            return Ok(None);
        };
        let bytes = file.read_vec_at("the end of the root", tail_offset, tail)?;
        let len = u64::from(LE.u32(&bytes, 0).unwrap_or(0));
        let least = (FRAME_HEAD + RECORD_HEAD + CHECKSUM) as u64;
        let Some(offset) = end
            .checked_sub(len)
            .filter(|_| (least..1 << 16).contains(&len))
        else {
            return Ok(None);
        };
        let frame = file.read_vec_at("the root", offset, len)?;
        let Ok(record) = record::decode(&frame, Tag::Root, offset) else {
            return Ok(None);
        };
        let root = Self::decode(record.payload, offset)?;
        Ok((root.header.dump() == record.dump).then_some((offset, root)))
    }
}
