//! The header of a memory range, which LiME and AVML have in common.

use super::{ADDRESS_LIMIT, MAX_RANGES};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// Size of the header.
pub(super) const HEADER_SIZE: u64 = 32;

/// Magic number and version of a format.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) name: &'static str,
    pub(super) magic: u32,
    pub(super) version: u32,
}

impl Mark {
    /// Returns true if a file with these first bytes has the format.
    pub(super) fn is_at(&self, front: &[u8]) -> bool {
        let word = |at| Endian::Little.u32(front, at);
        word(0) == Some(self.magic) && word(4) == Some(self.version)
    }

    /// Reads the header at `offset`, the first after `count` others: first address and size.
    pub(super) fn read(
        &self,
        file: &(impl ReadAt + ?Sized),
        offset: u64,
        count: usize,
    ) -> Result<(u64, u64), FormatError> {
        let mut header = [0; HEADER_SIZE as usize];
        file.read_exact_at("the header of a memory range", offset, &mut header)?;
        if !self.is_at(&header) {
            return Err(FormatError::unexpected(
                "the header of a memory range",
                offset,
                format!(
                    "the magic number {:#x} and version {} ({})",
                    self.magic, self.version, self.name
                ),
                format!("{:x?}", &header[..8]),
            ));
        }
        if count == MAX_RANGES {
            return Err(FormatError::unexpected(
                "the number of memory ranges",
                offset,
                format!("at most {MAX_RANGES}"),
                "more",
            ));
        }
        let field = |at| Endian::Little.u64(&header, at).unwrap_or_default();
        // The end is that of struct resource: the last byte.
        let (start, last) = (field(8), field(16));
        if start > last || last >= ADDRESS_LIMIT {
            return Err(FormatError::unexpected(
                "the addresses of a memory range",
                offset + 8,
                format!("a first and a last one below {ADDRESS_LIMIT:#x}"),
                format!("{start:#x} to {last:#x}"),
            ));
        }
        Ok((start, last - start + 1))
    }
}
