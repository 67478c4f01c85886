//! Compression of pages: one trait for every codec, chosen once.
//!
//! Contexts are made once for each thread and used again for every page;
//! nothing is allocated in between.

mod choice;
mod deflate;
mod lzo;
mod matching;
mod snappy;
mod stored;
mod zlib;
mod zstd;

pub use choice::{Codec, Compression};

/// Compresses pages. A context of its own for each thread.
pub trait Compressor: Send {
    /// Compresses `src` into the front of `dst` and says how many bytes it
    /// took; `None` if it does not fit in `dst` (the page is then stored raw).
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize>;
}

/// Decompresses pages. A context of its own for each thread.
pub trait Decompressor: Send {
    /// Decompresses `src` into the front of `dst` and says how many bytes came.
    ///
    /// Data that would take more than `dst` holds is an error, found after no
    /// more work than filling `dst`.
    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError>;
}

/// A codec was asked for something it cannot do, or was given damaged data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// No codec has this name.
    #[error("unknown codec {name:?}: expected none, zlib, lzo, snappy or zstd")]
    Unknown {
        /// The name given.
        name: String,
    },
    /// The level is not a number or is out of the codec's range.
    #[error("{codec} has no level {level:?}: expected {min} to {max}")]
    Level {
        /// The codec by name.
        codec: &'static str,
        /// The level given.
        level: String,
        /// The lowest level of this codec.
        min: i32,
        /// Its highest level.
        max: i32,
    },
    /// A level for a codec that has none.
    #[error("{codec} takes no level")]
    NoLevels {
        /// The codec by name.
        codec: &'static str,
    },
    /// No memory for a context.
    #[error("{codec}: cannot allocate a context")]
    OutOfMemory {
        /// The codec by name.
        codec: &'static str,
    },
    /// The data holds more than there is room for.
    #[error("{codec}: the data decompresses to more than {room} bytes")]
    TooLong {
        /// The codec by name.
        codec: &'static str,
        /// How many bytes were expected at most.
        room: usize,
    },
    /// The data is not what a compressor of this codec writes.
    #[error("{codec}: {reason}")]
    Damaged {
        /// The codec by name.
        codec: &'static str,
        /// What the decoder says.
        reason: String,
    },
}

/// A decompressor for `codec`; that of [`Codec::None`] copies.
pub fn decompressor(codec: Codec) -> Result<Box<dyn Decompressor>, CodecError> {
    Ok(match codec {
        Codec::None => Box::new(stored::Stored),
        Codec::Zlib => Box::new(zlib::ZlibDecompressor::new()),
        Codec::Lzo => Box::new(lzo::LzoDecompressor),
        Codec::Snappy => Box::new(snappy::SnappyDecompressor::new()),
        Codec::Zstd => Box::new(zstd::ZstdDecompressor::new()?),
    })
}

#[cfg(test)]
mod tests;
