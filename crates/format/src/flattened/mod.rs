//! Flattened files: a dump as a sequence of records, for an output that cannot seek, such as a
//! pipe to another machine.
//!
//! A header of 4096 bytes is followed by records: an offset and a size, both 64-bit
//! big-endian, and that many bytes, which belong at the offset in the dump. Records
//! come in any order, a later one overwrites an earlier one, and -1 for both numbers
//! marks the end.
//!
//! [`FlattenedFile`] reads such a file in place, [`unpack()`] unpacks a stream.

mod index;
mod record;
mod unpack;

pub use index::{FlattenedFile, Limits};
pub use record::{end_record, record_header};
pub use unpack::{Summary, unpack};

use crate::bytes::Endian;
use crate::error::FormatError;

/// The first bytes of a flattened file.
pub const SIGNATURE: [u8; 16] = *b"makedumpfile\0\0\0\0";
/// Size of the header, most of it padding.
pub const HEADER_LEN: usize = 4096;
/// Size of a record's offset and size.
pub const RECORD_HEADER_LEN: usize = 16;

const TYPE_AT: usize = 16;
const VERSION_AT: usize = 24;
const TYPE: i64 = 1;
const VERSION: i64 = 1;

/// Returns true if a file that starts with `front`, 16 bytes or more, is flattened.
pub fn is_flattened(front: &[u8]) -> bool {
    front.starts_with(&SIGNATURE)
}

/// Encodes the header.
pub fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..SIGNATURE.len()].copy_from_slice(&SIGNATURE);
    Endian::Big.put_i64(&mut header, TYPE_AT, TYPE);
    Endian::Big.put_i64(&mut header, VERSION_AT, VERSION);
    header
}

/// Checks the header at the start of a file.
fn check_header(front: &[u8]) -> Result<(), FormatError> {
    if !is_flattened(front) {
        let found = &front[..front.len().min(SIGNATURE.len())];
        return Err(FormatError::unexpected(
            "flattened signature",
            0,
            format!("{:?}", SIGNATURE.escape_ascii().to_string()),
            format!("{:?}", found.escape_ascii().to_string()),
        ));
    }
    for (what, at, expected) in [
        ("type of the flattened file", TYPE_AT, TYPE),
        ("version of the flattened file", VERSION_AT, VERSION),
    ] {
        let found = Endian::Big.i64(front, at);
        if found != Some(expected) {
            return Err(FormatError::unexpected(
                what,
                at as u64,
                expected.to_string(),
                found.map_or("nothing".into(), |found| found.to_string()),
            ));
        }
    }
    if front.len() < HEADER_LEN {
        return Err(FormatError::Truncated {
            what: "the header of the flattened file",
            offset: 0,
            needed: HEADER_LEN as u64,
            size: front.len() as u64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
