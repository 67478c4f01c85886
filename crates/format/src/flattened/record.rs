//! The 16-byte header of a record.

use super::RECORD_HEADER_LEN;
use crate::bytes::Endian;
use crate::error::FormatError;

const SIZE_AT: usize = 8;
const END: i64 = -1;

/// Encodes the header of `size` bytes at `offset`. Neither number, nor their sum, may exceed
/// `i64::MAX`.
pub fn record_header(offset: u64, size: u64) -> [u8; RECORD_HEADER_LEN] {
    let mut header = [0; RECORD_HEADER_LEN];
    Endian::Big.put_u64(&mut header, 0, offset);
    Endian::Big.put_u64(&mut header, SIZE_AT, size);
    header
}

/// Encodes the end record.
pub fn end_record() -> [u8; RECORD_HEADER_LEN] {
    record_header(END as u64, END as u64)
}

/// A decoded record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Data at `offset` of the dump.
    Data { offset: u64, size: u64 },
    /// The end record.
    End,
}

impl Record {
    /// Parses the header at offset `at` of the flattened file.
    pub(super) fn parse(header: &[u8; RECORD_HEADER_LEN], at: u64) -> Result<Self, FormatError> {
        let field = |offset| Endian::Big.i64(header, offset).unwrap_or(END);
        let (offset, size) = (field(0), field(SIZE_AT));
        if offset == END && size == END {
            return Ok(Record::End);
        }
        if offset < 0 {
            return Err(FormatError::unexpected(
                "offset of a flattened record",
                at,
                "0 or more, or -1 twice at the end",
                offset.to_string(),
            ));
        }
        if size < 0 || offset.checked_add(size).is_none() {
            return Err(FormatError::unexpected(
                "size of a flattened record",
                at + SIZE_AT as u64,
                format!("0 to {}, for its offset is {offset}", i64::MAX - offset),
                size.to_string(),
            ));
        }
        Ok(Record::Data {
            offset: offset as u64,
            size: size as u64,
        })
    }
}
