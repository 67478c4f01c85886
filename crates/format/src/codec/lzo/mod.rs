//! LZO1X, implemented from the description of its stream in the kernel's
//! `Documentation/staging/lzo.rst`.
//!
//! A stream is a sequence of instructions, selected by the first byte `b`. `S` is
//! the number of literals (0 to 3) that follow the instruction, `D` and `H` (the
//! following byte) make up the distance, `L` the length. A length whose field is 0
//! continues in the next bytes: 255 for each zero byte, plus the first byte that is
//! not zero.
//!
//! | `b`         | meaning                                                       |
//! |-------------|---------------------------------------------------------------|
//! | `0000_LLLL` | after a match without literals: `L + 3` literals (15 if 0)    |
//! | `0000_DDSS` | after 1 to 3 literals: 2 bytes from `(H << 2) + D + 1`        |
//! | `0000_DDSS` | after a run of 4 or more: 3 bytes from `(H << 2) + D + 2049`  |
//! | `0001_HLLL` | `L + 2` bytes (7 if 0) from `16384 + (H << 14) + D`           |
//! | `001L_LLLL` | `L + 2` bytes (31 if 0) from `D + 1`                          |
//! | `LLLD_DDSS` | `L + 1` bytes (`L` is 2 to 7) from `(H << 3) + D + 1`         |
//!
//! In the fourth and fifth kind two bytes, least significant first, hold
//! `D << 2 | S`; the fourth with distance 16384 ends the stream. A first byte of
//! the stream above 17 means `b - 17` literals.
//!
//! Verified against liblzo2 2.10, both ways, over all non-zero pages of a real dump
//! and over random and structured blocks of 0 to 200,000 bytes; some of its streams
//! are part of the tests.

mod decode;
mod encode;

use super::{CodecError, Compressor, Decompressor};

const NAME: &str = "lzo";

/// Maximum distance of any instruction.
const MAX_DISTANCE: usize = 49151;
/// Maximum distance of the two-byte instruction, which copies at most [`MAX_SHORT_LEN`] bytes.
const MAX_SHORT_DISTANCE: usize = 2048;
const MAX_SHORT_LEN: usize = 8;
/// Maximum distance of the `001L_LLLL` instruction.
const MAX_MIDDLE_DISTANCE: usize = 16384;
/// Maximum number of literals that the first byte of the stream can encode, and the value added
/// to it.
const MAX_FIRST_LITERALS: usize = 238;
const FIRST_LITERALS: u8 = 17;
/// A match at distance [`MAX_MIDDLE_DISTANCE`], encoded as a far one: the end marker.
const END: [u8; 3] = [0x11, 0, 0];

/// Memory of a compressor.
pub(super) const CONTEXT_BYTES: usize = encode::MEMORY;

/// A compressor with its working memory.
pub(super) struct LzoCompressor(encode::Encoder);

impl LzoCompressor {
    pub(super) fn new() -> Self {
        Self(encode::Encoder::new())
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
        decode::decode(src, dst).map_err(|error| match error {
            decode::Error::TooLong => CodecError::TooLong { codec: NAME, room },
            decode::Error::Damaged(reason) => CodecError::Damaged {
                codec: NAME,
                reason: reason.into(),
            },
        })
    }
}

#[cfg(test)]
mod tests;
