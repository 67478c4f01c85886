//! The bitmaps, whose bytes begin with the most significant bit.

use super::Disks;
use crate::bitmap::Bitmap;
use crate::bytes::ReadAt;
use crate::error::FormatError;

impl Disks {
    /// Sets the bits of the page frames from `first` on that are RAM. `first` is a multiple of 8.
    pub fn ram(&self, first: u64, bits: &mut Bitmap) -> Result<(), FormatError> {
        self.bits("the bitmap of RAM", self.header.ram_bitmap.0, first, bits)
    }

    /// Sets the bits of the page frames from `first` on that the dump has.
    pub fn dumped(&self, first: u64, bits: &mut Bitmap) -> Result<(), FormatError> {
        let at = self.header.dumped_bitmap.0;
        self.bits("the bitmap of dumped pages", at, first, bits)
    }

    fn bits(
        &self,
        what: &'static str,
        bitmap: u64,
        first: u64,
        bits: &mut Bitmap,
    ) -> Result<(), FormatError> {
        bits.clear();
        let frames = self.header.end_frame.saturating_sub(first);
        let frames = frames.min(bits.len() as u64) as usize;
        let bytes = &mut bits.as_bytes_mut()[..frames.div_ceil(8)];
        self.first()
            .file
            .read_exact_at(what, bitmap + first / 8, bytes)?;
        for byte in bytes {
            *byte = byte.reverse_bits();
        }
        bits.clear_range(frames, bits.len());
        Ok(())
    }
}
