//! The partition header, with which each disk begins.

use super::{BLOCK_SIZE, MAX_DISKS, SIGNATURE};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

const SYSTEM: usize = 88;
const DISK_SET: usize = 104;
const VOLUME: usize = 120;
const NUMBER: usize = 152;
const USED: usize = 160;
/// Numbers that follow from each other to the end of the header.
const MAGIC: usize = 168;

/// An EFI GUID.
pub type Guid = [u8; 16];

/// The partition header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionHeader {
    /// Offset of the header: a media backup has a block before it.
    pub offset: u64,
    /// GUID of the machine.
    pub system: Guid,
    /// GUID of the disk set.
    pub disk_set: Guid,
    /// GUID of this disk.
    pub volume: Guid,
    /// Number of this disk in its set, from 1 on; 0 for a dump on one partition.
    pub number: u32,
    /// Bytes used on this disk.
    pub used: u64,
}

impl PartitionHeader {
    /// Reads the header at the start, or behind the block of a media backup. `None` if neither
    /// place has its signature.
    ///
    /// # Errors
    ///
    /// The header is damaged, or of another disk set than the media backup says.
    pub fn find(file: &dyn ReadAt) -> Result<Option<Self>, FormatError> {
        for offset in [0, BLOCK_SIZE] {
            let mut bytes = vec![0; BLOCK_SIZE as usize];
            match file.read_exact_at("the partition header", offset, &mut bytes) {
                Ok(()) => {}
                Err(FormatError::Truncated { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
            if !bytes.starts_with(SIGNATURE) {
                continue;
            }
            let header = Self::decode(&bytes, offset)?;
            if offset != 0 {
                header.check_media(file)?;
            }
            return Ok(Some(header));
        }
        Ok(None)
    }

    fn decode(bytes: &[u8], offset: u64) -> Result<Self, FormatError> {
        let endian = Endian::Little;
        let mut magic = bytes[MAGIC..].chunks_exact(4).enumerate();
        let mut before = None;
        let broken = magic.find_map(|(index, word)| {
            let found = endian.u32(word, 0)?;
            let expected = before.map(|before: u32| before.wrapping_add(7).wrapping_mul(11));
            before = Some(found);
            (expected.is_some_and(|expected| expected != found)).then_some((index, expected, found))
        });
        if let Some((index, expected, found)) = broken {
            return Err(FormatError::unexpected(
                "the magic number of the partition header",
                offset + (MAGIC + 4 * index) as u64,
                format!("{:#x}", expected.unwrap_or(0)),
                format!("{found:#x}"),
            ));
        }
        let guid = |at: usize| {
            let mut guid = Guid::default();
            guid.copy_from_slice(&bytes[at..at + size_of::<Guid>()]);
            guid
        };
        let header = Self {
            offset,
            system: guid(SYSTEM),
            disk_set: guid(DISK_SET),
            volume: guid(VOLUME),
            number: endian.u32(bytes, NUMBER).unwrap_or(0),
            used: endian.u64(bytes, USED).unwrap_or(0),
        };
        if header.number > MAX_DISKS {
            return Err(FormatError::unexpected(
                "the number of the disk",
                offset + NUMBER as u64,
                format!("at most {MAX_DISKS}"),
                header.number.to_string(),
            ));
        }
        Ok(header)
    }

    /// Checks that the block of a media backup is of this dump, and its first file.
    fn check_media(&self, file: &dyn ReadAt) -> Result<(), FormatError> {
        let mut bytes = [0; 49];
        file.read_exact_at("the media header", 0, &mut bytes)?;
        let is_same = bytes[..16] == self.system && bytes[16..32] == self.disk_set;
        if !is_same {
            return Err(FormatError::unexpected(
                "the GUIDs of the media header",
                0,
                "those of the partition header behind it",
                "others",
            ));
        }
        match bytes[48] {
            1 => Ok(()),
            number => Err(FormatError::unexpected(
                "the sequence number of the media backup",
                48,
                "1, the first file",
                number.to_string(),
            )),
        }
    }
}
