//! Raw dump devices: a disk or partition that holds one dump and nothing else.
//!
//! Equal blocks at the start and at the end of the device describe the contents between them.
//! See docs/formats/device.md.

pub mod block;
pub mod claims;

pub use block::{
    BLOCK_SIZE, BlockPosition, CONTENTS_OFFSET, ContentsKind, DeviceHeader, DumpId, MAX_REPORT,
    ReportPlace, end_block_offset,
};
pub use claims::{Claim, find_claims};

use xxhash_rust::xxh64::xxh64;

use crate::bytes::ReadAt;
use crate::error::FormatError;

/// The blocks found on a device.
#[derive(Clone, Debug)]
pub struct FoundDump {
    /// The newer header.
    pub header: DeviceHeader,
    /// The valid blocks and their offsets; [`BlockPosition::Start`] first.
    pub good: Vec<(BlockPosition, u64)>,
    /// The reason why the other block is invalid; `None` if it is valid.
    pub damage: Option<String>,
}

impl FoundDump {
    /// Offset and length of the contents, limited by the device. For an incomplete dump the
    /// length is an upper bound.
    pub fn contents(&self, device_size: u64) -> (u64, u64) {
        let header = &self.header;
        let most = match header.length {
            0 => header.end_of_room().saturating_sub(header.offset),
            length => length,
        };
        let there = device_size.saturating_sub(header.offset);
        (header.offset, most.min(there))
    }

    /// Reads the report of the dump; returns `None` if there is none.
    ///
    /// # Errors
    ///
    /// Reading failed, or the checksum is wrong.
    pub fn report(&self, device: &(impl ReadAt + ?Sized)) -> Result<Option<Vec<u8>>, FormatError> {
        const WHAT: &str = "the report of a dump";
        let Some(place) = self.header.report else {
            return Ok(None);
        };
        let report = device.read_vec_at(WHAT, place.offset, place.length)?;
        let checksum = xxh64(&report, 0);
        if checksum != place.checksum {
            let expected = format!("bytes with the checksum {:#x}", place.checksum);
            let found = format!("{checksum:#x}: it is damaged");
            return Err(FormatError::unexpected(WHAT, place.offset, expected, found));
        }
        Ok(Some(report))
    }

    /// Returns true if the device ends before its contents.
    pub fn is_cut(&self, device_size: u64) -> bool {
        let end = self.header.offset.saturating_add(self.header.length);
        end > device_size
    }
}

/// Finds the blocks of a dump device; returns `None` if there are none.
///
/// # Errors
///
/// Reading failed, or a block has an unknown version.
pub fn find(device: &(impl ReadAt + ?Sized)) -> Result<Option<FoundDump>, FormatError> {
    let size = device.size();
    let end = end_block_offset(size);
    if size < CONTENTS_OFFSET {
        return Ok(None);
    }
    let (mut headers, mut damage) = (Vec::new(), None);
    for (position, offset) in [(BlockPosition::Start, 0), (BlockPosition::End, end)] {
        let block = device.read_vec_at("a block of a dump device", offset, BLOCK_SIZE as u64);
        match block.and_then(|block| DeviceHeader::decode(&block, position, offset)) {
            Ok(header) => headers.push((header, position, offset)),
            Err(error @ FormatError::Io { .. }) => {
                // The other block exists for the case of a bad sector in this one.
                damage = Some(error.to_string());
            }
            Err(error) => damage = Some(error.to_string()),
        }
    }
    let good = headers
        .iter()
        .map(|(_, position, at)| (*position, *at))
        .collect();
    // Blocks of the same generation are equal.
    let headers = headers.into_iter().map(|(header, ..)| header);
    let newer = headers.reduce(|start, end| match end.is_newer_than(&start) {
        true => end,
        false => start,
    });
    Ok(newer.map(|header| FoundDump {
        header,
        good,
        damage,
    }))
}

/// Returns true if these first bytes are those of a dump device, valid or not.
pub fn is_device(front: &[u8]) -> bool {
    front.starts_with(&block::NAME)
}

/// The contents of a device, as a file.
pub struct DeviceContents<R> {
    device: R,
    offset: u64,
    length: u64,
}

impl<R: ReadAt> DeviceContents<R> {
    /// `length` bytes of `device` from `offset` on.
    pub fn new(device: R, offset: u64, length: u64) -> Self {
        Self {
            device,
            offset,
            length,
        }
    }

    /// Converts an offset of the device to one of the contents.
    fn inside(&self, at: u64) -> u64 {
        at.saturating_sub(self.offset).min(self.length)
    }
}

impl<R: ReadAt> ReadAt for DeviceContents<R> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = self.length.saturating_sub(offset);
        let count = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        if count == 0 {
            return Ok(0);
        }
        self.device
            .read_at(self.offset.saturating_add(offset), &mut buf[..count])
    }

    fn size(&self) -> u64 {
        self.length
    }

    fn next_data(&self, offset: u64) -> u64 {
        if offset >= self.length {
            return offset;
        }
        self.inside(self.device.next_data(self.offset + offset))
            .max(offset)
    }

    fn next_hole(&self, offset: u64) -> u64 {
        if offset >= self.length {
            return offset;
        }
        self.inside(self.device.next_hole(self.offset + offset))
            .max(offset)
    }
}

#[cfg(test)]
mod tests;
