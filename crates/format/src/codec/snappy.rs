//! Snappy blocks in the raw format, without framing.

use super::traits::{CodecError, Compressor, Decompressor};

const NAME: &str = "snappy";

/// The encoder's two hash tables, and scratch memory for a block of 64 KiB.
pub(super) const CONTEXT_BYTES: usize = (2 << 10) + (32 << 10) + (80 << 10);

/// A reused encoder.
pub(super) struct SnappyCompressor {
    encoder: snap::raw::Encoder,
    scratch: Vec<u8>,
}

impl SnappyCompressor {
    pub(super) fn new() -> Self {
        Self {
            encoder: snap::raw::Encoder::new(),
            scratch: Vec::new(),
        }
    }
}

impl Compressor for SnappyCompressor {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        // The encoder requires space for the worst case.
        let worst = snap::raw::max_compress_len(src.len());
        if dst.len() >= worst {
            return self.encoder.compress(src, dst).ok();
        }
        if self.scratch.len() < worst {
            self.scratch.resize(worst, 0);
        }
        let len = self.encoder.compress(src, &mut self.scratch).ok()?;
        dst.get_mut(..len)?.copy_from_slice(&self.scratch[..len]);
        Some(len)
    }
}

/// The decoder has no state worth reusing, but is created once all the same.
pub(super) struct SnappyDecompressor(snap::raw::Decoder);

impl SnappyDecompressor {
    pub(super) fn new() -> Self {
        Self(snap::raw::Decoder::new())
    }
}

impl Decompressor for SnappyDecompressor {
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError> {
        let room = dst.len();
        self.0.decompress(src, dst).map_err(|error| match error {
            snap::Error::BufferTooSmall { .. } | snap::Error::TooBig { .. } => {
                CodecError::TooLong { codec: NAME, room }
            }
            error => CodecError::Damaged {
                codec: NAME,
                reason: error.to_string(),
            },
        })
    }
}
