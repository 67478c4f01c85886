//! Reads bitmaps of a dump on a failing disk.

use std::io;
use std::ops::Range;

use super::descriptor::DESCRIPTOR_SIZE;
use crate::bitmap::Bitmap;
use crate::bytes::ReadAt;
use crate::error::FormatError;
use crate::salvage::{Salvager, Unreadable};

/// Bytes read in one step: whole page descriptors.
pub(super) const STEP: u64 = (DESCRIPTOR_SIZE as u64) << 14;

/// The headers and bitmaps of a dump: each file of a split one has all of them, so that bytes
/// that one file does not return are read from another.
pub struct BitmapCopies<'a> {
    files: Vec<&'a dyn ReadAt>,
    lost: &'a Unreadable,
}

impl<'a> BitmapCopies<'a> {
    /// Reads from the first of `files` that returns the bytes, and zeros in the ranges `lost`.
    pub fn new(files: Vec<&'a dyn ReadAt>, lost: &'a Unreadable) -> Self {
        Self { files, lost }
    }
}

impl ReadAt for BitmapCopies<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut len = buf.len();
        if let Some(lost) = self.lost.next(offset) {
            let before = usize::try_from(lost.start.saturating_sub(offset)).unwrap_or(len);
            if before == 0 {
                let inside = usize::try_from(lost.end - offset).unwrap_or(len).min(len);
                buf[..inside].fill(0);
                return Ok(inside);
            }
            len = len.min(before);
        }
        let mut result = Ok(0);
        for file in &self.files {
            result = file.read_at(offset, &mut buf[..len]);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn size(&self) -> u64 {
        self.files.first().map_or(0, |file| file.size())
    }

    fn next_data(&self, offset: u64) -> u64 {
        let file = self.files.first();
        file.map_or(offset, |file| file.next_data(offset))
    }
}

/// Counts the bits of the page frames `frames` in the bitmap at offset `bitmap`; bits that cannot
/// be read are zero.
pub fn count_bits(bytes: &dyn ReadAt, bitmap: u64, frames: Range<u64>) -> Result<u64, FormatError> {
    let mut salvager = Salvager::default();
    let mut bits = Bitmap::new(STEP as usize * 8);
    let end = frames.end.div_ceil(8);
    let end = end.min(bytes.size().saturating_sub(bitmap));
    let (mut count, mut at) = (0, frames.start / 8);
    loop {
        at = at.max(bytes.next_data(bitmap + at).saturating_sub(bitmap));
        if at >= end {
            return Ok(count);
        }
        let len = STEP.min(end - at);
        bits.clear();
        let piece = &mut bits.as_bytes_mut()[..len as usize];
        salvager.read(bytes, "a bitmap", bitmap + at, piece)?;
        let inside = |frame: u64| frame.saturating_sub(at * 8).min(len * 8) as usize;
        count += bits.count_before(inside(frames.end)) - bits.count_before(inside(frames.start));
        at += len;
    }
}
