//! LZO1X, by our own encoder and decoder.

use bigiron_codecs::lzo::{Encoder, Error, decode};

use super::traits::{CodecError, Compressor, Decompressor};

const NAME: &str = "lzo";

/// Memory of a compressor.
pub(super) use bigiron_codecs::lzo::ENCODER_BYTES as CONTEXT_BYTES;

/// A compressor with its working memory.
pub(super) struct LzoCompressor(Encoder);

impl LzoCompressor {
    pub(super) fn new() -> Self {
        Self(Encoder::new())
    }
}

impl Compressor for LzoCompressor {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.0.encode(src, dst)
    }
}

/// The decompressor has no state.
pub(super) struct LzoDecompressor;

impl Decompressor for LzoDecompressor {
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError> {
        let room = dst.len();
        decode(src, dst).map_err(|error| match error {
            Error::TooLong => CodecError::TooLong { codec: NAME, room },
            Error::Damaged(reason) => CodecError::Damaged {
                codec: NAME,
                reason: reason.into(),
            },
        })
    }
}
