//! No compression: pages are copied.

use super::traits::{CodecError, Compressor, Decompressor};

/// Copies.
pub(super) struct Stored;

impl Compressor for Stored {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        dst.get_mut(..src.len())?.copy_from_slice(src);
        Some(src.len())
    }
}

impl Decompressor for Stored {
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError> {
        let room = dst.len();
        let front = dst.get_mut(..src.len()).ok_or(CodecError::TooLong {
            codec: "none",
            room,
        })?;
        front.copy_from_slice(src);
        Ok(src.len())
    }
}
