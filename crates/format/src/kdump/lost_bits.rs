//! Completes a dumped bitmap that cannot be read as a whole. A page's descriptor is found by
//! counting the bits before its own: bits that are missing would give every page behind them the
//! bytes of another one.

use std::ops::Range;

use super::bitmaps::{STEP, count_bits};
use super::{DESCRIPTOR_SIZE, KdumpHeaders, PageDescriptor};
use crate::bitmap::Bitmap;
use crate::bytes::ReadAt;
use crate::error::FormatError;
use crate::salvage::{Salvager, Unreadable};

/// Largest extent of the bitmap that is completed, in bytes.
const MAX_EXTENT: u64 = 1 << 20;

/// The bits that a file's descriptors need, and the pages that are lost with them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LostBits {
    /// The bits of these page frames, from the first one's byte on.
    pub bits: Option<(Range<u64>, Bitmap)>,
    /// Indices of the page descriptors of the file whose page frames are unknown.
    pub unknown: Range<u64>,
}

impl LostBits {
    /// Completes the dumped bitmap in `bitmaps` for the page descriptors in `file`. It is zero, or
    /// cannot be read, in the ranges `lost`.
    ///
    /// The number of descriptors says how many bits are missing. If the extent has as many pages
    /// of RAM, all of them were dumped. Otherwise the bits of as many pages of RAM are set, and
    /// their pages are lost, but the pages behind them keep their places. If the number is
    /// unknown, these are lost too.
    pub fn complete(
        bitmaps: &dyn ReadAt,
        file: &dyn ReadAt,
        headers: &KdumpHeaders,
        lost: &Unreadable,
    ) -> Result<Self, FormatError> {
        let (frames, bitmap) = (headers.frames(), headers.layout.dumped_bitmap());
        let of_frames = bitmap + frames.start / 8..bitmap + frames.end.div_ceil(8);
        let Some(extent) = lost.within(&of_frames) else {
            return Ok(Self::default());
        };
        let first_byte = extent.start - bitmap;
        let bad = (first_byte * 8).max(frames.start)..((extent.end - bitmap) * 8).min(frames.end);
        let before = count_bits(bitmaps, bitmap, frames.start..bad.start)?;
        let after = count_bits(bitmaps, bitmap, bad.end..frames.end)?;
        let all = count_descriptors(file, headers, lost)?;
        let missing = all.and_then(|all| all.checked_sub(before)?.checked_sub(after));
        let len = extent.end - extent.start;
        let Some(missing) = missing.filter(|_| len <= MAX_EXTENT) else {
            return Ok(Self::behind(before));
        };
        let mut bits = Bitmap::new(len as usize * 8);
        let mut salvager = Salvager::default();
        let ram = headers.layout.ram_bitmap() + first_byte;
        let in_ram = &mut bits.as_bytes_mut()[..len as usize];
        let is_read = salvager.read(bitmaps, "a bitmap", ram, in_ram)?;
        let inside = |frame: u64| (frame - first_byte * 8) as usize;
        bits.clear_range(0, inside(bad.start));
        bits.clear_range(inside(bad.end), bits.len());
        let ram_pages = bits.count();
        if !is_read || lost.hits(&(ram..ram + len)) || missing > ram_pages {
            return Ok(Self::behind(before));
        }
        // Keep the first `missing` pages.
        let mut at = 0;
        for _ in 0..missing {
            at = bits
                .next_run(at, bits.len(), 1)
                .map_or(at, |(bit, _)| bit + 1);
        }
        bits.clear_range(at, bits.len());
        let unknown = match missing == ram_pages {
            true => 0..0,
            false => before..before + missing,
        };
        let bits = Some((bad, bits));
        Ok(Self { bits, unknown })
    }

    /// All pages from a descriptor on are lost.
    fn behind(index: u64) -> Self {
        Self {
            bits: None,
            unknown: index..u64::MAX,
        }
    }

    /// Sets the completed bits in `bits`, which has those of the page frames from `first` on.
    pub fn apply(&self, first: u64, bits: &mut Bitmap) {
        let Some((frames, completed)) = &self.bits else {
            return;
        };
        let end = frames.end.min(first + bits.len() as u64);
        let start = frames.start.max(first);
        if start >= end {
            return;
        }
        bits.clear_range((start - first) as usize, (end - first) as usize);
        let base = frames.start - frames.start % 8;
        let (mut at, end) = ((start - base) as usize, (end - base) as usize);
        while let Some((bit, len)) = completed.next_run(at, end, end) {
            let to = (base + bit as u64 - first) as usize;
            bits.set_range(to, to + len);
            at = bit + len;
        }
    }
}

/// Counts the page descriptors, which end where the first page's data begins; `None` if that is
/// unknown. A part of a split dump has room for those of all parts, and zeros behind its own.
fn count_descriptors(
    file: &dyn ReadAt,
    headers: &KdumpHeaders,
    lost: &Unreadable,
) -> Result<Option<u64>, FormatError> {
    let size = DESCRIPTOR_SIZE as u64;
    let start = headers.layout.descriptors();
    let (mut at, mut data) = (start, file.size());
    // Where the last descriptor ends that is not zero.
    let mut used = start;
    let mut step = vec![0; STEP as usize];
    let mut salvager = Salvager::default();
    while at < data {
        let len = STEP.min(data - at) / size * size;
        if len == 0 {
            break;
        }
        salvager.read(file, "page descriptors", at, &mut step[..len as usize])?;
        for descriptor in step[..len as usize].chunks_exact(DESCRIPTOR_SIZE) {
            if at >= data {
                break;
            }
            at += size;
            let page = PageDescriptor::decode(descriptor, headers.endian).unwrap_or_default();
            if !page.is_lost() {
                data = data.min(page.offset);
                used = at;
            }
        }
    }
    let is_read = |end: u64| {
        let descriptors = start..end;
        !lost.hits(&descriptors) && !salvager.unreadable().hits(&descriptors)
    };
    let end = match headers.split {
        // Pages that were not written have descriptors of zeros too.
        Some(_) if headers.incomplete => None,
        Some(_) => Some(used).filter(|_| is_read(at)),
        None => Some(at).filter(|at| *at == data && is_read(*at)),
    };
    Ok(end.map(|end| (end - start) / size))
}
