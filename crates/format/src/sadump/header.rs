//! The dump header, and where the parts of the dump are.

use super::{BLOCK_SIZE, MAX_DISKS, PartitionHeader, SIGNATURE};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// The header version since which numbers of blocks have 64 bits. Later ones are read as this one.
const VERSION_64: u32 = 1;
/// Maximum number of bitmap blocks: those of 2^52 bytes.
const MAX_BITMAP_BLOCKS: u32 = 1 << 25;
/// Maximum number of CPUs.
const MAX_CPUS: u32 = 1 << 16;

/// The dump header, by what readers need of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpHeader {
    /// The page frame after the last one in the bitmaps.
    pub end_frame: u64,
    /// Number of CPUs.
    pub cpu_count: u32,
    /// Number of the CPU that wrote the dump.
    pub current_cpu: u32,
    /// Offset of the sub-header; `None` if there is none.
    pub sub_header: Option<u64>,
    /// Offset and size of the bitmap of RAM, in bytes.
    pub ram_bitmap: (u64, u64),
    /// Offset and size of the bitmap of the pages in the dump, in bytes.
    pub dumped_bitmap: (u64, u64),
    /// Offset of the pages.
    pub data: u64,
    /// GUIDs of the disks of the set from the second on.
    pub volumes: Vec<[u8; 16]>,
}

impl DumpHeader {
    /// Reads the headers of a single partition, a media backup, or the first disk of a set.
    pub fn read(file: &dyn ReadAt, partition: &PartitionHeader) -> Result<Self, FormatError> {
        let mut at = partition.offset + BLOCK_SIZE;
        let mut volumes = Vec::new();
        if partition.offset == 0 && partition.number != 0 {
            let blocks;
            (blocks, volumes) = disk_set(file, at)?;
            at += blocks * BLOCK_SIZE;
        }
        let mut bytes = vec![0; BLOCK_SIZE as usize];
        file.read_exact_at("the dump header", at, &mut bytes)?;
        let unexpected = |what, field: u64, expected: String, found: u64| {
            FormatError::unexpected(what, at + field, expected, found.to_string())
        };
        if !bytes.starts_with(SIGNATURE) {
            let found = String::from_utf8_lossy(&bytes[..8]).into_owned();
            return Err(FormatError::unexpected(
                "the dump header",
                at,
                "\"sadump\"",
                format!("{found:?}"),
            ));
        }
        let word = |field: usize| Endian::Little.u32(&bytes, field).unwrap_or(0);
        let (version, block_size) = (word(8), u64::from(word(40)));
        if block_size != BLOCK_SIZE {
            let expected = BLOCK_SIZE.to_string();
            return Err(unexpected("the block size", 40, expected, block_size));
        }
        let (sub_blocks, ram_blocks, dumped_blocks) = (word(48), word(52), word(56));
        for (field, blocks) in [(52, ram_blocks), (56, dumped_blocks)] {
            if !(1..=MAX_BITMAP_BLOCKS).contains(&blocks) {
                let expected = format!("1 to {MAX_BITMAP_BLOCKS}");
                return Err(unexpected(
                    "the size of a bitmap in blocks",
                    field,
                    expected,
                    blocks.into(),
                ));
            }
        }
        let cpu_count = word(80);
        if cpu_count > MAX_CPUS {
            let expected = format!("at most {MAX_CPUS}");
            return Err(unexpected(
                "the number of CPUs",
                80,
                expected,
                cpu_count.into(),
            ));
        }
        let end_frame = match version >= VERSION_64 {
            true => Endian::Little.u64(&bytes, 88).unwrap_or(0),
            false => u64::from(word(60)),
        };
        let sub_header = at + BLOCK_SIZE;
        let ram = sub_header + u64::from(sub_blocks) * BLOCK_SIZE;
        let ram_size = u64::from(ram_blocks) * BLOCK_SIZE;
        let dumped_size = u64::from(dumped_blocks) * BLOCK_SIZE;
        let header = Self {
            // Writers state a number that may be rounded.
            end_frame: end_frame.min(8 * ram_size).min(8 * dumped_size),
            cpu_count,
            current_cpu: word(76),
            sub_header: (sub_blocks != 0).then_some(sub_header),
            ram_bitmap: (ram, ram_size),
            dumped_bitmap: (ram + ram_size, dumped_size),
            data: ram + ram_size + dumped_size,
            volumes,
        };
        if header.data > file.size() {
            return Err(FormatError::Truncated {
                what: "the bitmaps",
                offset: ram,
                needed: ram_size + dumped_size,
                size: file.size(),
            });
        }
        Ok(header)
    }
}

/// Reads the header of a disk set; returns its size in blocks, and the GUIDs of the other disks.
fn disk_set(file: &dyn ReadAt, at: u64) -> Result<(u64, Vec<[u8; 16]>), FormatError> {
    /// Offset and size of the entries of the disks from the second on.
    const VOLUMES: usize = 16;
    const VOLUME: usize = 32;
    let mut bytes = vec![0; BLOCK_SIZE as usize];
    file.read_exact_at("the disk set header", at, &mut bytes)?;
    let word = |field: usize| Endian::Little.u32(&bytes, field).unwrap_or(0);
    let (blocks, disks) = (word(0), word(4));
    if !(1..=MAX_DISKS).contains(&disks) || !(1..=1024).contains(&blocks) {
        return Err(FormatError::unexpected(
            "the disk set header",
            at,
            format!("1 to 1024 blocks and 1 to {MAX_DISKS} disks"),
            format!("{blocks} blocks and {disks} disks"),
        ));
    }
    let volumes = bytes[VOLUMES..].chunks_exact(VOLUME);
    let volumes = volumes.take(disks as usize - 1).map(|volume| {
        let mut guid = [0; 16];
        guid.copy_from_slice(&volume[..16]);
        guid
    });
    Ok((blocks.into(), volumes.collect()))
}
