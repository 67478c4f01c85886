//! The tags of a group: names with values or blocks of bytes.

use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// Sizes of values that mean a block, and a compressed block.
const BLOCK: u16 = 0x3f;
const COMPRESSED: u16 = 0x3e;
/// Maximum number of tags in a group.
const MAX_TAGS: usize = 1 << 20;

/// Where the contents of a tag are.
pub(super) enum Place {
    /// A value of at most 8 bytes; of a longer one its first 8.
    Value(u64),
    /// Bytes in the file.
    Block { offset: u64, size: u64 },
    /// Compressed bytes.
    Compressed { offset: u64 },
}

/// A tag.
pub(super) struct Tag<'t> {
    pub(super) name: &'t [u8],
    /// Up to three indices; those that it does not have are `u32::MAX`.
    pub(super) indices: [u32; 3],
    pub(super) place: Place,
}

/// Passes each tag of the group at `at` to `take`.
pub(super) fn each_tag(
    file: &dyn ReadAt,
    mut at: u64,
    mut take: impl FnMut(Tag<'_>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    for _ in 0..MAX_TAGS {
        let mut tag = [0; 2];
        file.read_exact_at("a tag", at, &mut tag)?;
        let tag = u16::from_le_bytes(tag);
        if tag == 0 {
            return Ok(());
        }
        let (name_size, count) = (usize::from(tag >> 8), usize::from(tag >> 6 & 3));
        let mut bytes = [0; 255 + 12];
        let bytes = &mut bytes[..name_size + 4 * count];
        file.read_exact_at("a tag", at + 2, bytes)?;
        let (name, words) = bytes.split_at(name_size);
        let mut indices = [u32::MAX; 3];
        for (index, out) in indices.iter_mut().take(count).enumerate() {
            *out = Endian::Little.u32(words, 4 * index).unwrap_or(u32::MAX);
        }
        at += 2 + bytes.len() as u64;
        let kind = tag & 0x3f;
        let place;
        if kind == BLOCK || kind == COMPRESSED {
            let mut block = [0; 18];
            file.read_exact_at("a block", at, &mut block)?;
            let word = |at: usize| Endian::Little.u64(&block, at).unwrap_or(0);
            let padding = Endian::Little.u16(&block, 16).unwrap_or(0);
            let size = word(0);
            let offset = at + block.len() as u64 + u64::from(padding);
            let end = offset.checked_add(size).filter(|end| *end <= file.size());
            // The memory may be truncated; nothing that is needed comes behind it.
            place = match kind {
                COMPRESSED => Place::Compressed { offset },
                _ => Place::Block { offset, size },
            };
            take(Tag {
                name,
                indices,
                place,
            })?;
            match end {
                Some(end) => at = end,
                None => return Ok(()),
            }
            continue;
        }
        let mut value = [0; 64];
        let value = &mut value[..kind.into()];
        file.read_exact_at("a value", at, value)?;
        at += u64::from(kind);
        let mut word = [0; 8];
        let len = value.len().min(8);
        word[..len].copy_from_slice(&value[..len]);
        take(Tag {
            name,
            indices,
            place: Place::Value(u64::from_le_bytes(word)),
        })?;
    }
    Err(FormatError::unexpected(
        "the tags of a group",
        at,
        format!("at most {MAX_TAGS}"),
        "more",
    ))
}
