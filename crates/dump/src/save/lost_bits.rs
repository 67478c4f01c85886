//! Completes the dumped bitmap of a copied kdump-compressed dump where it could not be read. A
//! page's descriptor is found by counting the bits before its own: bits that are missing would
//! give every page behind them the bytes of another one.

use std::ops::Range;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders, PageDescriptor};
use bigiron_format::salvage::Unreadable;
use bigiron_format::{FormatError, ReadAt};

/// Bytes read in one step: whole page descriptors.
pub const STEP: u64 = (DESCRIPTOR_SIZE as u64) << 14;
/// Largest extent of the bitmap that is completed.
const MAX_EXTENT: u64 = 1 << 20;

/// The bits to set, and the pages that are lost with them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Offset in the copy, and bytes of the dumped bitmap.
    pub bitmap: Option<(u64, Vec<u8>)>,
    /// Indices of the page descriptors whose page frames are unknown.
    pub unknown: Range<u64>,
}

/// Completes the dumped bitmap of `copy`, in which the ranges `lost` are zero.
///
/// The number of descriptors says how many bits are missing. If the extent has as many pages of
/// RAM, all of them were dumped. Otherwise the bits of as many pages of RAM are set, and their
/// pages are lost, but the pages behind them keep their places. If the number is unknown, these
/// are lost too.
pub fn complete(
    copy: &impl ReadAt,
    headers: &KdumpHeaders,
    lost: &Unreadable,
) -> Result<Completed, FormatError> {
    let layout = headers.layout;
    let (start, end) = (layout.dumped_bitmap(), layout.descriptors());
    let Some(extent) = lost.within(&(start..end)) else {
        return Ok(Completed::default());
    };
    let before = count_bits(copy, start..extent.start)?;
    let after = count_bits(copy, extent.end..end)?;
    let ram_at = extent.start - layout.bitmap_size..extent.end - layout.bitmap_size;
    let missing = count_descriptors(copy, headers, lost)?
        .and_then(|all| all.checked_sub(before)?.checked_sub(after));
    let (Some(missing), false) = (missing, lost.hits(&ram_at)) else {
        return Ok(behind(before));
    };
    let len = extent.end - extent.start;
    if len > MAX_EXTENT {
        return Ok(behind(before));
    }
    let mut bits = Bitmap::new(len as usize * 8);
    copy.read_exact_at("a bitmap", ram_at.start, bits.as_bytes_mut())?;
    let ram = bits.count();
    if missing > ram {
        return Ok(behind(before));
    }
    // Keep the first `missing` pages.
    let mut at = 0;
    for _ in 0..missing {
        at = bits
            .next_run(at, bits.len(), 1)
            .map_or(at, |(bit, _)| bit + 1);
    }
    bits.clear_range(at, bits.len());
    Ok(Completed {
        bitmap: Some((extent.start, bits.as_bytes()[..len as usize].to_vec())),
        unknown: if missing == ram {
            0..0
        } else {
            before..before + missing
        },
    })
}

/// All pages from a descriptor on are lost.
fn behind(index: u64) -> Completed {
    Completed {
        bitmap: None,
        unknown: index..u64::MAX,
    }
}

/// Counts the bits that are set in these bytes.
pub fn count_bits(bytes: &impl ReadAt, range: Range<u64>) -> Result<u64, FormatError> {
    let (mut count, mut at) = (0, range.start);
    let end = range.end.min(bytes.size());
    let mut bits = Bitmap::new(STEP as usize * 8);
    while at < end {
        let len = STEP.min(end - at) as usize;
        bits.clear();
        bytes.read_exact_at("a bitmap", at, &mut bits.as_bytes_mut()[..len])?;
        count += bits.count();
        at += len as u64;
    }
    Ok(count)
}

/// Counts the page descriptors, which end where the first page's data begins; `None` if that is
/// unknown.
fn count_descriptors(
    bytes: &impl ReadAt,
    headers: &KdumpHeaders,
    lost: &Unreadable,
) -> Result<Option<u64>, FormatError> {
    let start = headers.layout.descriptors();
    let (mut at, mut data) = (start, bytes.size());
    let mut step = vec![0; STEP as usize];
    while at < data {
        let len = STEP.min(data - at) / DESCRIPTOR_SIZE as u64 * DESCRIPTOR_SIZE as u64;
        if len == 0 {
            return Ok(None);
        }
        bytes.read_exact_at("page descriptors", at, &mut step[..len as usize])?;
        for descriptor in step[..len as usize].chunks_exact(DESCRIPTOR_SIZE) {
            if at >= data {
                break;
            }
            let page = PageDescriptor::decode(descriptor, headers.endian).unwrap_or_default();
            if !page.is_lost() {
                data = data.min(page.offset);
            }
            at += DESCRIPTOR_SIZE as u64;
        }
    }
    let is_known = at == data && !lost.hits(&(start..at));
    Ok(is_known.then(|| (at - start) / DESCRIPTOR_SIZE as u64))
}
