//! A simple reader of kdump-compressed and flattened dumps, written from the formats'
//! descriptions; it shares only the codecs with the project's reader.

use bigiron_format::codec::{Codec, decompressor};

/// Size of a page in the dumps that it reads.
pub const PAGE: usize = 4096;
const FLATTENED: &[u8] = b"makedumpfile\0\0\0\0";
const DESCRIPTOR: usize = 24;
/// Flags of a page descriptor, with their codecs.
const CODECS: [(u32, Codec); 4] = [
    (1, Codec::Zlib),
    (2, Codec::Lzo),
    (4, Codec::Snappy),
    (0x20, Codec::Zstd),
];

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let bytes = bytes.get(at..at.saturating_add(width)).unwrap_or_default();
    bytes
        .iter()
        .rev()
        .fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Returns the dump in a flattened one: its records in order. Records after the first one that
/// is not sound do not count. `None` if it is larger than `most`.
pub fn unflatten(file: &[u8], most: usize) -> Option<Vec<u8>> {
    if !file.starts_with(FLATTENED) {
        return Some(file.to_vec());
    }
    let mut dump = Vec::new();
    let mut at = PAGE;
    while let Some(head) = file.get(at..at + 16) {
        let field = |at: usize| i64::from_be_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        let (Ok(offset), Ok(len)) = (usize::try_from(field(0)), usize::try_from(field(8))) else {
            break;
        };
        let end = (at + 16).saturating_add(len).min(file.len());
        let data = &file[at + 16..end];
        let last = offset
            .checked_add(data.len())
            .filter(|last| *last <= most)?;
        dump.resize(dump.len().max(last), 0);
        dump[offset..last].copy_from_slice(data);
        at = end;
    }
    Some(dump)
}

/// A little-endian kdump-compressed dump with pages of 4 KiB.
pub struct NaiveKdump<'a> {
    file: &'a [u8],
    /// Offset of the second bitmap, and of the page descriptors.
    dumped: usize,
    descriptors: usize,
    /// Page frames below it.
    pub end_frame: u64,
    /// Range of the page frames of this part, if the dump is split.
    split: Option<(u64, u64)>,
}

impl<'a> NaiveKdump<'a> {
    /// Reads the headers; they are those that the test itself has written.
    pub fn read(file: &'a [u8]) -> Self {
        let blocks = |at: usize| number(file, at, 4) as usize;
        let bitmaps = (1 + blocks(432)) * PAGE;
        let half = blocks(436) * PAGE / 2;
        let is_split = number(file, PAGE + 12, 4) != 0;
        Self {
            file,
            dumped: bitmaps + half,
            descriptors: bitmaps + 2 * half,
            end_frame: number(file, PAGE + 96, 8),
            split: is_split.then(|| (number(file, PAGE + 80, 8), number(file, PAGE + 88, 8))),
        }
    }

    fn is_dumped(&self, frame: u64) -> bool {
        let inside = self
            .split
            .is_none_or(|(start, end)| (start..end).contains(&frame));
        let byte = self.file.get(self.dumped + frame as usize / 8);
        inside && byte.is_some_and(|byte| byte >> (frame % 8) & 1 == 1)
    }

    /// Returns offset, size and flags of a page's descriptor; `None` if the dump does not have it.
    pub fn descriptor(&self, frame: u64) -> Option<(u64, u64, u32)> {
        if frame >= self.end_frame || !self.is_dumped(frame) {
            return None;
        }
        let index = (0..frame).filter(|frame| self.is_dumped(*frame)).count();
        let at = self.descriptors + DESCRIPTOR * index;
        let descriptor = self.file.get(at..at + DESCRIPTOR)?;
        let flags = number(descriptor, 12, 4) as u32;
        Some((number(descriptor, 0, 8), number(descriptor, 8, 4), flags))
    }

    /// Returns a page; `None` if the dump does not have it, or not soundly.
    pub fn page(&self, frame: u64) -> Option<Vec<u8>> {
        let (offset, size, flags) = self.descriptor(frame)?;
        let (offset, size) = (usize::try_from(offset).ok()?, size as usize);
        let all = (0..self.end_frame)
            .filter(|frame| self.is_dumped(*frame))
            .count();
        // Pages are behind the headers: a descriptor that leads into them is damaged.
        if offset < self.descriptors + DESCRIPTOR * all || size > PAGE {
            return None;
        }
        let stored = self.file.get(offset..offset.checked_add(size)?)?;
        if flags == 0 {
            return (size == PAGE).then(|| stored.to_vec());
        }
        let (_, codec) = CODECS.iter().find(|(flag, _)| *flag == flags)?;
        let mut page = vec![0; PAGE];
        let len = decompressor(*codec).ok()?.decompress(stored, &mut page);
        (len.ok() == Some(PAGE)).then_some(page)
    }
}
