//! Zstandard: every page is a frame of its own, with its size and without a
//! checksum.
//!
//! A reused context with `ZSTD_compressCCtx` was held against
//! `ZSTD_compress2` and a prepared dictionary (`CDict`), and level 1 against
//! other logarithms of hash and window and other lengths of match, over the
//! non-zero pages of a real dump. For blocks of 4 KiB none was faster at the
//! same ratio by more than the noise: the context already goes on with its
//! tables from block to block instead of clearing them, and entropy coding takes
//! most of the time.

use std::ops::RangeInclusive;

use zstd_safe::{CCtx, DCtx, get_error_name};

use super::traits::{CodecError, Compressor, Decompressor};

const NAME: &str = "zstd";

/// The library returns negated error codes.
const DST_TOO_SMALL: usize =
    (zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();

/// Levels of the linked library.
pub(super) fn levels() -> RangeInclusive<i32> {
    zstd_safe::min_c_level()..=zstd_safe::max_c_level()
}

/// Memory of a context that has compressed a block of 64 KiB: queried from the library, since
/// it depends on the level in no simple way.
pub(super) fn context_bytes(level: i32) -> usize {
    let block = vec![0; 64 << 10];
    let mut frame = vec![0; zstd_safe::compress_bound(block.len())];
    match ZstdCompressor::new(level) {
        Ok(mut compressor) => {
            compressor.compress(&block, &mut frame);
            compressor.context.sizeof()
        }
        Err(_) => 0,
    }
}

/// A reused compression context.
pub(super) struct ZstdCompressor {
    context: CCtx<'static>,
    level: i32,
}

impl ZstdCompressor {
    pub(super) fn new(level: i32) -> Result<Self, CodecError> {
        let context = CCtx::try_create().ok_or(CodecError::OutOfMemory { codec: NAME })?;
        Ok(Self { context, level })
    }
}

impl Compressor for ZstdCompressor {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.context.compress(dst, src, self.level).ok()
    }
}

/// A reused decompression context.
pub(super) struct ZstdDecompressor(DCtx<'static>);

impl ZstdDecompressor {
    pub(super) fn new() -> Result<Self, CodecError> {
        let context = DCtx::try_create().ok_or(CodecError::OutOfMemory { codec: NAME })?;
        Ok(Self(context))
    }
}

impl Decompressor for ZstdDecompressor {
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError> {
        let room = dst.len();
        self.0.decompress(dst, src).map_err(|code| {
            if code == DST_TOO_SMALL {
                CodecError::TooLong { codec: NAME, room }
            } else {
                CodecError::Damaged {
                    codec: NAME,
                    reason: get_error_name(code).to_lowercase(),
                }
            }
        })
    }
}
