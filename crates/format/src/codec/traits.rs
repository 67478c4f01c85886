//! The traits of a codec, and its errors.

/// Compresses pages; each thread has its own.
pub trait Compressor: Send {
    /// Compresses `src` into the front of `dst` and returns the compressed size; `None` if it
    /// does not fit in `dst` (the page is then stored uncompressed).
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize>;
}

/// Decompresses pages; each thread has its own.
pub trait Decompressor: Send {
    /// Decompresses `src` into the front of `dst` and returns the decompressed size.
    ///
    /// Data that exceeds `dst` is an error, detected after no more work than filling `dst`.
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError>;
}

/// Codec errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Unknown codec name.
    #[error("unknown codec {name:?}: expected none, zlib, lzo, snappy or zstd")]
    Unknown {
        /// The given name.
        name: String,
    },
    /// The level is not a number or out of the codec's range.
    #[error("{codec} has no level {level:?}: expected {min} to {max}")]
    Level {
        /// Name of the codec.
        codec: &'static str,
        /// The given level.
        level: String,
        /// Minimum level.
        min: i32,
        /// Maximum level.
        max: i32,
    },
    /// A level for a codec without levels.
    #[error("{codec} takes no level")]
    NoLevels {
        /// Name of the codec.
        codec: &'static str,
    },
    /// Out of memory for a context.
    #[error("{codec}: cannot allocate a context")]
    OutOfMemory {
        /// Name of the codec.
        codec: &'static str,
    },
    /// The decompressed data is too large.
    #[error("{codec}: the data decompresses to more than {room} bytes")]
    TooLong {
        /// Name of the codec.
        codec: &'static str,
        /// Maximum size expected.
        room: usize,
    },
    /// Invalid compressed data.
    #[error("{codec}: {reason}")]
    Damaged {
        /// Name of the codec.
        codec: &'static str,
        /// The decoder's reason.
        reason: String,
    },
}
