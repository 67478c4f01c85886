//! zlib streams, readable by zlib's own `uncompress`: written by our own encoder at level 1, by
//! libdeflate above it; read by libdeflate. Neither allocates per page.

use std::ops::RangeInclusive;

use bigiron_codecs::deflate::{self, Encoder};
use libdeflater::{CompressionLvl, DecompressionError};

use super::traits::{CodecError, Compressor, Decompressor};

const NAME: &str = "zlib";

/// libdeflate also has a level 0, which only stores.
pub(super) const LEVELS: RangeInclusive<i32> = 1..=12;

/// The level of our own encoder.
const FAST_LEVEL: i32 = 1;

/// Memory of one compressor. For libdeflate it is the measured allocation (1.26), which depends
/// on the match finder and so on the level.
pub(super) fn context_bytes(level: i32) -> usize {
    match level {
        ..=FAST_LEVEL => deflate::ENCODER_BYTES,
        2..=9 => 657 << 10,
        _ => 8805 << 10,
    }
}

/// A reused compressor.
pub(super) enum ZlibCompressor {
    /// Ours.
    Fast(Box<Encoder>),
    /// libdeflate's.
    Small(libdeflater::Compressor),
}

impl ZlibCompressor {
    pub(super) fn new(level: i32) -> Result<Self, CodecError> {
        match level {
            FAST_LEVEL => Ok(Self::Fast(Box::new(Encoder::new()))),
            _ => Self::library(level),
        }
    }

    /// Creates libdeflate's compressor, whatever the level.
    pub(super) fn library(level: i32) -> Result<Self, CodecError> {
        let level = CompressionLvl::new(level).map_err(|_| CodecError::Level {
            codec: NAME,
            level: level.to_string(),
            min: *LEVELS.start(),
            max: *LEVELS.end(),
        })?;
        Ok(Self::Small(libdeflater::Compressor::new(level)))
    }
}

impl Compressor for ZlibCompressor {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        match self {
            Self::Fast(encoder) => encoder.encode(src, dst),
            Self::Small(compressor) => compressor.zlib_compress(src, dst).ok(),
        }
    }
}

/// A reused libdeflate decompressor.
pub(super) struct ZlibDecompressor(libdeflater::Decompressor);

impl ZlibDecompressor {
    pub(super) fn new() -> Self {
        Self(libdeflater::Decompressor::new())
    }
}

impl Decompressor for ZlibDecompressor {
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError> {
        let room = dst.len();
        self.0
            .zlib_decompress(src, dst)
            .map_err(|error| match error {
                DecompressionError::BadData => CodecError::Damaged {
                    codec: NAME,
                    reason: "not a valid zlib stream".into(),
                },
                DecompressionError::InsufficientSpace => CodecError::TooLong { codec: NAME, room },
            })
    }
}
