//! The seek table of the zstd seekable format
//! (contrib/seekable_format/zstd_seekable_compression_format.md of zstd), for readers that do
//! not know vmdump.

use super::extent::Extent;
use super::record::{FRAME_HEAD, skippable_len};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// Magic number of the table's skippable frame.
const FRAME_MAGIC: u32 = 0x184d_2a5e;
/// The last four bytes of the file.
const FOOTER_MAGIC: u32 = 0x8f92_eab1;
/// Size of the footer.
const FOOTER: usize = 9;
/// Size of an entry without a checksum.
const ENTRY: usize = 8;
/// Maximum number of frames in a table: 16 MiB. A larger dump has no seek table, and readers
/// use the index.
pub const MAX_FRAMES: usize = 2 << 20;

const LE: Endian = Endian::Little;

/// Compressed and decompressed sizes of all frames so far.
#[derive(Clone, Debug)]
pub struct SeekTable {
    frames: Vec<(u32, u32)>,
    most: usize,
    too_many: bool,
}

impl Default for SeekTable {
    fn default() -> Self {
        Self::with_share(1)
    }
}

impl SeekTable {
    /// Creates an empty table for one of `count` parts, which share the memory limit.
    pub fn with_share(count: u16) -> Self {
        Self {
            frames: Vec::new(),
            most: MAX_FRAMES / usize::from(count.max(1)),
            too_many: false,
        }
    }

    /// Creates a table of these frames, which start at the beginning of the file; no table is
    /// written if they are unknown.
    pub fn of(frames: Option<Vec<(u32, u32)>>) -> Self {
        Self {
            too_many: frames.is_none(),
            frames: frames.unwrap_or_default(),
            most: MAX_FRAMES,
        }
    }

    /// Adds the next frame.
    pub fn add(&mut self, compressed: u32, decompressed: u32) {
        if self.frames.len() >= self.most {
            self.too_many = true;
            self.frames = Vec::new();
        }
        if !self.too_many {
            self.frames.push((compressed, decompressed));
        }
    }

    /// The frames; `None` if there are too many for a table.
    pub fn frames(&self) -> Option<&[(u32, u32)]> {
        (!self.too_many).then_some(&self.frames)
    }

    /// Encodes the table's skippable frame; returns `None` if there are too many frames.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let frames = self.frames()?;
        let len = frames.len() * ENTRY + FOOTER;
        let mut out = Vec::with_capacity(FRAME_HEAD + len);
        out.extend_from_slice(&FRAME_MAGIC.to_le_bytes());
        out.extend_from_slice(&(len as u32).to_le_bytes());
        for (compressed, decompressed) in frames {
            out.extend_from_slice(&compressed.to_le_bytes());
            out.extend_from_slice(&decompressed.to_le_bytes());
        }
        out.extend_from_slice(&(frames.len() as u32).to_le_bytes());
        out.push(0);
        out.extend_from_slice(&FOOTER_MAGIC.to_le_bytes());
        Some(out)
    }
}

/// Finds the seek table at the end of `file`.
pub fn find(file: &(impl ReadAt + ?Sized)) -> Result<Option<Extent>, FormatError> {
    let size = file.size();
    let Some(footer_offset) = size.checked_sub(FOOTER as u64) else {
        return Ok(None);
    };
    let footer = file.read_vec_at("the seek table's footer", footer_offset, FOOTER as u64)?;
    let frames = u64::from(LE.u32(&footer, 0).unwrap_or(0));
    if LE.u32(&footer, 5) != Some(FOOTER_MAGIC) || footer[4] != 0 {
        return Ok(None);
    }
    let len = (FRAME_HEAD + FOOTER) as u64 + frames * ENTRY as u64;
    let Some(offset) = size.checked_sub(len) else {
        return Ok(None);
    };
    let head = file.read_vec_at("the seek table", offset, FRAME_HEAD as u64)?;
    let is_table = LE.u32(&head, 0) == Some(FRAME_MAGIC) && skippable_len(&head) == Some(len);
    Ok(is_table.then_some(Extent { offset, size: len }))
}

/// Reads the sizes of all frames from the table at `extent`.
pub fn read(file: &(impl ReadAt + ?Sized), extent: Extent) -> Result<Vec<(u32, u32)>, FormatError> {
    let bytes = file.read_vec_at("the seek table", extent.offset, extent.size)?;
    let entries = &bytes[FRAME_HEAD..bytes.len().saturating_sub(FOOTER).max(FRAME_HEAD)];
    let entry = |entry: &[u8]| Some((LE.u32(entry, 0)?, LE.u32(entry, 4)?));
    Ok(entries.chunks_exact(ENTRY).filter_map(entry).collect())
}
