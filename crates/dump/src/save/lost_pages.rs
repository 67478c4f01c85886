//! Marks pages of a copied kdump-compressed dump as lost whose data could not be read: the format
//! has no checksums, so that zeros in their place would pass for the page.

use std::io;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders, PageDescriptor};
use bigiron_format::salvage::Unreadable;
use bigiron_format::{FormatError, ReadAt};

use crate::output::{FileOutput, Output};

/// Offset and bit of the header's status "incomplete" (docs/formats/kdump.md).
pub const STATUS: usize = 424;
pub const INCOMPLETE: u32 = 8;

/// Bytes read in one step: whole page descriptors.
const STEP: u64 = (DESCRIPTOR_SIZE as u64) << 14;

/// Marks the pages of `copy` that have data in the ranges `lost` of it, and the dump as
/// incomplete. Copies in other formats stay as they are: their checksums show what is lost, or
/// they have no place for it.
pub fn mark_lost_pages(copy: &FileOutput, lost: &Unreadable) -> io::Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let bytes = CopyBytes(copy);
    let mut front = [0; 16];
    copy.read_back(0, &mut front)?;
    if !KdumpHeaders::is_kdump(&front) {
        return Ok(());
    }
    // Without its headers the dump cannot be opened at all.
    let Ok(headers) = KdumpHeaders::read(&bytes) else {
        return Ok(());
    };
    match mark(copy, &bytes, &headers, lost) {
        Err(FormatError::Io { cause, .. }) => Err(cause),
        Err(error) => Err(io::Error::other(error)),
        Ok(()) => Ok(()),
    }
}

fn mark(
    copy: &FileOutput,
    bytes: &CopyBytes,
    headers: &KdumpHeaders,
    lost: &Unreadable,
) -> Result<(), FormatError> {
    let (layout, endian) = (headers.layout, headers.endian);
    let written = |offset| {
        move |cause| FormatError::Io {
            what: "the copy",
            offset,
            cause,
        }
    };
    let end = layout
        .descriptor(count_pages(bytes, headers)?)
        .min(bytes.size());
    let mut at = layout.descriptors();
    let mut step = vec![0; STEP as usize];
    while at < end {
        let len = STEP.min(end - at) as usize;
        bytes.read_exact_at("page descriptors", at, &mut step[..len])?;
        let mut changed = false;
        for descriptor in step[..len].chunks_exact_mut(DESCRIPTOR_SIZE) {
            let page = PageDescriptor::decode(descriptor, endian).unwrap_or_default();
            let data = page.offset..page.offset.saturating_add(u64::from(page.size));
            if !page.is_lost() && lost.hits(&data) {
                descriptor.copy_from_slice(&PageDescriptor::default().encode(endian));
                changed = true;
            }
        }
        if changed {
            copy.write_at(at, &step[..len]).map_err(written(at))?;
        }
        at += len as u64;
    }
    let mut status = [0; 4];
    bytes.read_exact_at("the status", STATUS as u64, &mut status)?;
    let value = endian.u32(&status, 0).unwrap_or(0) | INCOMPLETE;
    endian.put_u32(&mut status, 0, value);
    copy.write_at(STATUS as u64, &status)
        .map_err(written(STATUS as u64))
}

/// Counts the dumped pages.
fn count_pages(bytes: &CopyBytes, headers: &KdumpHeaders) -> Result<u64, FormatError> {
    let (mut pages, mut at) = (0, headers.layout.dumped_bitmap());
    let end = headers.layout.descriptors().min(bytes.size());
    let mut bits = Bitmap::new(STEP as usize * 8);
    while at < end {
        let len = STEP.min(end - at) as usize;
        bits.clear();
        bytes.read_exact_at("a bitmap", at, &mut bits.as_bytes_mut()[..len])?;
        pages += bits.count();
        at += len as u64;
    }
    Ok(pages)
}

/// The bytes of a copy that is being written.
struct CopyBytes<'a>(&'a FileOutput);

impl ReadAt for CopyBytes<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf
            .len()
            .min(usize::try_from(self.size().saturating_sub(offset)).unwrap_or(0));
        self.0.read_back(offset, &mut buf[..len])?;
        Ok(len)
    }

    fn size(&self) -> u64 {
        self.0
            .file()
            .metadata()
            .map_or(0, |metadata| metadata.len())
    }
}
