//! Finds the root at the end of a vmdump.

use super::extent::Extent;
use super::header::Container;
use super::record::{self, CHECKSUM, FRAME_HEAD, RECORD_HEAD, Tag};
use super::root::Root;
use super::{seek_table, streams};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// Upper bound of the root's stream.
const ROOT_ROOM: u64 = 16 << 10;
const LE: Endian = Endian::Little;

/// Finds the root at the end of `file`; returns its offset and contents, `None` without one.
pub(super) fn find_root(
    file: &(impl ReadAt + ?Sized),
    container: Container,
) -> Result<Option<(u64, Root)>, FormatError> {
    match container {
        Container::Zstd => find_frame(file),
        Container::Bzip2 => find_stream(file),
    }
}

/// Finds the root's frame: before the seek table, or last.
fn find_frame(file: &(impl ReadAt + ?Sized)) -> Result<Option<(u64, Root)>, FormatError> {
    let size = file.size();
    let end = match seek_table::find(file)? {
        Some(table) => table.offset,
        None => size,
    };
    // The length of the root's frame precedes its checksum.
    let tail = (8 + CHECKSUM) as u64;
    let Some(tail_offset) = end.checked_sub(tail) else {
        return Ok(None);
    };
    let bytes = file.read_vec_at("the end of the root", tail_offset, tail)?;
    let len = u64::from(LE.u32(&bytes, 0).unwrap_or(0));
    let least = (FRAME_HEAD + RECORD_HEAD + CHECKSUM) as u64;
    let Some(offset) = end
        .checked_sub(len)
        .filter(|_| (least..1 << 16).contains(&len))
    else {
        return Ok(None);
    };
    let frame = file.read_vec_at("the root", offset, len)?;
    let Ok(record) = record::decode(&frame, Tag::Root, offset) else {
        return Ok(None);
    };
    let root = Root::decode(record.payload, offset)?;
    Ok((root.header.dump() == record.dump).then_some((offset, root)))
}

/// Finds the root in the last stream of a bzip2 container.
fn find_stream(file: &(impl ReadAt + ?Sized)) -> Result<Option<(u64, Root)>, FormatError> {
    let size = file.size();
    let len = size.min(ROOT_ROOM);
    let bytes = file.read_vec_at("the end of the file", size - len, len)?;
    let mut windows = bytes.windows(streams::SIGNATURE.len());
    let Some(at) = windows.rposition(|window| window == streams::SIGNATURE) else {
        return Ok(None);
    };
    let offset = size - len + at as u64;
    let extent = Extent {
        offset,
        size: size - offset,
    };
    let Ok(stream) = streams::read(file, "the root", extent, 1 << 16) else {
        return Ok(None);
    };
    match record::decode_bare(&stream, offset) {
        Ok(record) if record.tag == Tag::Root => {
            let root = Root::decode(record.payload, offset)?;
            Ok((root.header.dump() == record.dump).then_some((offset, root)))
        }
        _ => Ok(None),
    }
}
