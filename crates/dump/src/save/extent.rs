//! Determines the length of a dump on a device whose writer did not record it.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::elf::{self, CoreHeaders};
use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders, PageDescriptor};
use bigiron_format::vmdump::walk::{Walk, WalkItem};
use bigiron_format::vmdump::{self, Chunk, Extent, VmdumpFile};
use bigiron_format::{FormatError, ReadAt};

use crate::page::is_zero;

/// Bytes read in one step: whole page descriptors.
const READ_BYTES: u64 = (DESCRIPTOR_SIZE as u64) << 14;

/// Bytes kept behind the last valid record if the next one cannot be read: a chunk that does not
/// shrink, and its head.
const MAX_HIDDEN: u64 = vmdump::MAX_CHUNK_BYTES + (1 << 20);

/// Returns the length of the dump; 0 if nothing was written yet, the whole size if it is
/// unknown.
pub fn used(contents: &dyn ReadAt) -> u64 {
    let size = contents.size();
    let mut front = [0; 4096];
    let read = contents.read_exact_at("the first block", 0, &mut front);
    if read.is_err() {
        return size;
    }
    if is_zero(&front) {
        return 0;
    }
    let used = if KdumpHeaders::is_kdump(&front) {
        used_by_kdump(contents)
    } else if front.starts_with(&elf::SIGNATURE) {
        used_by_core(contents)
    } else {
        Ok(size)
    };
    used.map_or(size, |used| used.min(size))
}

/// The end of the farthest page that a descriptor points to.
fn used_by_kdump(contents: &dyn ReadAt) -> Result<u64, FormatError> {
    let headers = KdumpHeaders::read(contents)?;
    let (layout, size) = (headers.layout, contents.size());
    let (mut pages, mut at) = (0, layout.dumped_bitmap());
    let end = layout.descriptors();
    let mut bits = Bitmap::new(READ_BYTES as usize * 8);
    while at < end && at < size {
        let len = READ_BYTES.min(end - at).min(size - at) as usize;
        bits.clear();
        contents.read_exact_at("a bitmap", at, &mut bits.as_bytes_mut()[..len])?;
        pages += bits.count();
        at += len as u64;
    }
    let end = layout.descriptor(pages).min(size);
    let (mut used, mut at) = (end, layout.descriptors());
    let mut bytes = vec![0; READ_BYTES as usize];
    while at < end {
        let descriptors = &mut bytes[..READ_BYTES.min(end - at) as usize];
        contents.read_exact_at("page descriptors", at, descriptors)?;
        for descriptor in descriptors.chunks_exact(DESCRIPTOR_SIZE) {
            let descriptor = PageDescriptor::decode(descriptor, headers.endian).unwrap_or_default();
            let behind = descriptor.offset.saturating_add(u64::from(descriptor.size));
            // A descriptor that points beyond the device is damaged and does not count.
            if behind <= size {
                used = used.max(behind);
            }
        }
        at += descriptors.len() as u64;
    }
    Ok(used)
}

/// The end of the last valid chunk or record of this dump, by its number and checksum, since
/// remains of an older dump may follow. `bigiron verify --repair` rebuilds the index after it.
pub fn used_by_vmdump(contents: impl ReadAt + 'static) -> u64 {
    let size = contents.size();
    let used = || {
        let file = VmdumpFile::open(Box::new(contents))?;
        let mut packed = Vec::new();
        let mut used = 0;
        for group in (0..file.chunk_groups()).rev() {
            if let Some(record) = file.index_record(group) {
                used = record.offset.saturating_add(record.size);
            } else {
                let chunks = file.chunks(group)?;
                // The data may not have reached the disk together with its header.
                let whole = |chunk: &&Chunk| {
                    let read = file.read_packed(chunk, &mut packed);
                    matches!(read, Ok(_) | Err(FormatError::Io { .. }))
                };
                used = chunks.iter().rev().find(whole).map_or(0, |chunk| {
                    let head = chunk.head_size(file.header().container) as u64;
                    let bytes = head.saturating_add(u64::from(chunk.packed));
                    chunk.offset.saturating_add(bytes)
                });
            }
            if used > 0 {
                break;
            }
        }
        // The end of the dump, if its writer got that far.
        let rest = Extent {
            offset: used,
            size: size.saturating_sub(used),
        };
        for step in Walk::new(file.bytes(), file.header(), rest) {
            match step {
                WalkItem::Record { extent, .. } => {
                    used = extent.offset.saturating_add(extent.size);
                }
                // It may hide the head of one more chunk.
                WalkItem::Damaged {
                    may_hold_records: true,
                    ..
                } => {
                    used = used.saturating_add(MAX_HIDDEN);
                    break;
                }
                _ => break,
            }
        }
        Ok::<_, FormatError>(used)
    };
    match used() {
        Ok(used) if used > 0 => used.min(size),
        _ => size,
    }
}

fn used_by_core(contents: &dyn ReadAt) -> Result<u64, FormatError> {
    let headers = CoreHeaders::read(contents)?;
    let ends = headers
        .segments
        .iter()
        .map(|segment| segment.file_offset.saturating_add(segment.file_size));
    Ok(ends.max().unwrap_or(contents.size()))
}
