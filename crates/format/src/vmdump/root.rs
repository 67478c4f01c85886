//! The root: the last record, which locates everything else.

use super::extent::Extent;
use super::header::{HEADER_SIZE, VmdumpHeader};
use super::record;
use crate::bytes::Endian;
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
}
