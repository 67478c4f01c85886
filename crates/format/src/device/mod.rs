//! Raw dump devices: a disk or partition that holds one dump and nothing else.
//!
//! The same block stands at the start and at the very end of the device and says
//! what is between them. See docs/formats/device.md.

pub mod block;
pub mod claims;

pub use block::{
    BLOCK_SIZE, CONTENTS_OFFSET, ContentsKind, DeviceHeader, DumpId, Place, end_block_offset,
};
pub use claims::{Claim, find_claims};

use crate::bytes::ReadAt;
use crate::error::FormatError;

/// What the two blocks of a device say.
#[derive(Clone, Debug)]
pub struct FoundDump {
    /// The newer one of the two headers.
    pub header: DeviceHeader,
    /// Where the blocks stand that are good; [`Place::Start`] first.
    pub good: Vec<(Place, u64)>,
    /// Why the other one is not good; `None` if it is.
    pub damage: Option<String>,
}

impl FoundDump {
    /// Where the contents are: offset, and the length as far as the device goes.
    /// Of a dump that did not come to its end the length is what may be its.
    pub fn contents(&self, device_size: u64) -> (u64, u64) {
        let header = &self.header;
        let most = match header.length {
            0 => end_block_offset(header.device_size).saturating_sub(header.offset),
            length => length,
        };
        let there = device_size.saturating_sub(header.offset);
        (header.offset, most.min(there))
    }

    /// Whether the device ends before its contents do.
    pub fn is_cut(&self, device_size: u64) -> bool {
        let end = self.header.offset.saturating_add(self.header.length);
        end > device_size
    }
}

/// Looks for the blocks of a dump device; `None` if neither is there.
///
/// # Errors
/// Reading failed, or a block is of a version that is not known.
pub fn find(device: &(impl ReadAt + ?Sized)) -> Result<Option<FoundDump>, FormatError> {
    let size = device.size();
    let end = end_block_offset(size);
    if size < CONTENTS_OFFSET {
        return Ok(None);
    }
    let (mut headers, mut damage) = (Vec::new(), None);
    for (place, offset) in [(Place::Start, 0), (Place::End, end)] {
        let block = device.read_vec_at("a block of a dump device", offset, BLOCK_SIZE as u64);
        match block.and_then(|block| DeviceHeader::decode(&block, place, offset)) {
            Ok(header) => headers.push((header, place, offset)),
            Err(error @ FormatError::Io { .. }) => {
                // A bad sector in one block is what the other one is for.
                damage = Some(error.to_string());
            }
            Err(error) => damage = Some(error.to_string()),
        }
    }
    let good = headers.iter().map(|(_, place, at)| (*place, *at)).collect();
    // At equal ages they say the same.
    let newer = headers
        .into_iter()
        .map(|(header, ..)| header)
        .rev()
        .max_by_key(|header| header.generation);
    Ok(newer.map(|header| FoundDump {
        header,
        good,
        damage,
    }))
}

/// Whether these first bytes of a file are meant to be a dump device's, good or
/// not.
pub fn is_device(front: &[u8]) -> bool {
    front.starts_with(&block::NAME)
}

/// What is on a device, from the offset of its contents on.
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

    /// An offset of the device as one of the contents.
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
