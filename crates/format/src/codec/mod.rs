//! Compression of pages: one trait for every codec, selected once.
//!
//! Each thread creates its contexts once and reuses them for every page; nothing is allocated
//! per page.

mod choice;
mod lzo;
mod snappy;
mod stored;
mod traits;
mod zlib;
mod zstd;

pub use choice::{Codec, Compression};
pub use traits::{CodecError, Compressor, Decompressor};

/// Creates a decompressor for `codec`; that of [`Codec::None`] copies.
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
