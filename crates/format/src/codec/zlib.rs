//! Zlib streams, by libdeflate: what zlib's own `uncompress` reads, at several
//! times its speed, and without an allocation for each page.

use std::ops::RangeInclusive;

use libdeflater::{CompressionLvl, DecompressionError};

use super::{CodecError, Compressor, Decompressor};

const NAME: &str = "zlib";

/// libdeflate also has a level 0, which only stores.
pub(super) const LEVELS: RangeInclusive<i32> = 1..=12;

/// What libdeflate allocates for one compressor (1.26, by the allocator's own
/// figures): it depends on the match finder, so on the level.
pub(super) fn context_bytes(level: i32) -> usize {
    match level {
        ..=1 => 201 << 10,
        2..=9 => 657 << 10,
        _ => 8805 << 10,
    }
}

/// A reused libdeflate compressor.
pub(super) struct ZlibCompressor(libdeflater::Compressor);

impl ZlibCompressor {
    pub(super) fn new(level: i32) -> Result<Self, CodecError> {
        let level = CompressionLvl::new(level).map_err(|_| CodecError::Level {
            codec: NAME,
            level: level.to_string(),
            min: *LEVELS.start(),
            max: *LEVELS.end(),
        })?;
        Ok(Self(libdeflater::Compressor::new(level)))
    }
}

impl Compressor for ZlibCompressor {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.0.zlib_compress(src, dst).ok()
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
