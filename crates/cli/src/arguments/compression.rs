//! Compression on the command line.

use std::fmt;
use std::str::FromStr;

use bigiron_dump::{ChunkCompression, PageCompression, ZstdChunks};
use bigiron_format::codec::{Codec, CodecError, Compression};

use super::format::Format;

/// Argument of `--compress`. Not every format supports every compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionArgument {
    /// A codec and its level.
    Fixed(Compression),
    /// `adaptive`, for kdump-compressed dumps.
    Adaptive,
    /// `bzip2`, for vmdumps.
    Bzip2,
}

impl CompressionArgument {
    /// Returns `format` with this compression and, for a vmdump, chunks of `chunk_bytes`.
    ///
    /// # Errors
    ///
    /// The format does not support this compression.
    pub fn of_format(
        self,
        format: Format,
        chunk_bytes: u32,
    ) -> Result<bigiron_dump::Format, String> {
        match format {
            Format::Kdump | Format::Flattened => Ok(bigiron_dump::Format::Kdump {
                compression: self.of_pages()?,
                flattened: format == Format::Flattened,
            }),
            Format::Elf => Ok(bigiron_dump::Format::ELF),
            Format::Vmdump => match self {
                Self::Bzip2 => Ok(bigiron_dump::Format::Vmdump(ChunkCompression::Bzip2)),
                _ => {
                    let chunks = ChunkCompression::Zstd(self.of_chunks(chunk_bytes)?);
                    Ok(bigiron_dump::Format::Vmdump(chunks))
                }
            },
        }
    }

    /// Returns the compression of a kdump-compressed dump's pages.
    pub fn of_pages(self) -> Result<PageCompression, String> {
        match self {
            Self::Fixed(compression) => Ok(PageCompression::Fixed(compression)),
            Self::Adaptive => Ok(PageCompression::Adaptive),
            Self::Bzip2 => Err(self.refused("kdump", "none, zlib, lzo, snappy, zstd or adaptive")),
        }
    }

    /// Returns the compression of a vmdump's chunks with zstd.
    pub fn of_chunks(self, bytes: u32) -> Result<ZstdChunks, String> {
        match self {
            Self::Fixed(Compression {
                codec: Codec::Zstd,
                level,
            }) => Ok(ZstdChunks { level, bytes }),
            _ => Err(self.refused("vmdump", "zstd or bzip2")),
        }
    }

    fn refused(self, format: &str, takes: &str) -> String {
        format!("-f {format} does not support -c {self}; use -c {takes}")
    }
}

impl fmt::Display for CompressionArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(compression) => compression.fmt(f),
            Self::Adaptive => f.pad("adaptive"),
            Self::Bzip2 => f.pad("bzip2"),
        }
    }
}

impl FromStr for CompressionArgument {
    type Err = CodecError;

    fn from_str(text: &str) -> Result<Self, CodecError> {
        match text {
            "adaptive" => Ok(Self::Adaptive),
            "bzip2" => Ok(Self::Bzip2),
            _ => text.parse().map(Self::Fixed),
        }
    }
}
