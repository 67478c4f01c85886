//! sadump, the dump that the firmware of Fujitsu's PRIMEQUEST and PRIMERGY servers writes
//! (docs/formats/sadump.md).

mod bitmaps;
mod cpu;
mod disks;
mod header;
mod partition;

pub use cpu::{CPU_STATE_SIZE, is_32_bit, notes, page_tables};
pub use disks::{Disk, Disks, Extent, NotOneDump};
pub use header::DumpHeader;
pub use partition::{Guid, PartitionHeader};

use crate::bytes::ReadAt;
use crate::error::FormatError;

/// Size of a block, and of a page. The format can state another one; no machine does.
pub const BLOCK_SIZE: u64 = 4096;
/// Signature of the partition header and of the dump header.
pub const SIGNATURE: &[u8; 8] = b"sadump\0\0";
/// Maximum number of disks of a set.
pub const MAX_DISKS: u32 = 16;

/// Returns true if the file begins as a sadump does, or as a media backup of one.
pub fn is_sadump(file: &dyn ReadAt) -> Result<bool, FormatError> {
    for offset in [0, BLOCK_SIZE] {
        let mut found = [0; SIGNATURE.len()];
        if offset + found.len() as u64 > file.size() {
            return Ok(false);
        }
        file.read_exact_at("the signature", offset, &mut found)?;
        if found == *SIGNATURE {
            return Ok(true);
        }
    }
    Ok(false)
}
