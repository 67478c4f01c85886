//! Flattened files: a dump as a row of records, written where the output
//! cannot seek, such as a pipe to another machine.
//!
//! A header of 4096 bytes, then records: an offset and a size, both 64 bits
//! wide and big-endian, and as many bytes, which belong at that offset of the
//! dump. Records come in any order, a later one overwrites an earlier one, and
//! -1 for both numbers is the end.
//!
//! [`FlattenedFile`] reads such a file in place, [`unpack()`] takes a stream apart.

mod index;
mod record;
mod unpack;

pub use index::{FlattenedFile, Limits};
pub use record::{end_record, record_header};
pub use unpack::{Summary, unpack};

use crate::bytes::Endian;
use crate::error::FormatError;

/// What a flattened file begins with.
pub const SIGNATURE: [u8; 16] = *b"makedumpfile\0\0\0\0";
/// The size of the header, mostly padding.
pub const HEADER_LEN: usize = 4096;
/// The size of a record's offset and size.
pub const RECORD_HEADER_LEN: usize = 16;

const TYPE_AT: usize = 16;
const VERSION_AT: usize = 24;
const TYPE: i64 = 1;
const VERSION: i64 = 1;

/// Whether a file that begins with `front` is flattened. 16 bytes suffice.
pub fn is_flattened(front: &[u8]) -> bool {
    front.starts_with(&SIGNATURE)
}

/// The header as written.
pub fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..SIGNATURE.len()].copy_from_slice(&SIGNATURE);
    Endian::Big.put_i64(&mut header, TYPE_AT, TYPE);
    Endian::Big.put_i64(&mut header, VERSION_AT, VERSION);
    header
}

/// Checks the first bytes of a file, which should hold the whole header.
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
