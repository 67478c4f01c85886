//! Compression of a vmdump's chunks.

use bigiron_format::codec::CodecError;
use bigiron_format::vmdump::{ChunkCompressor, Container, streams};

use crate::format::ChunkCompression;

impl ChunkCompression {
    pub(super) fn container(self) -> Container {
        match self {
            Self::Zstd(_) => Container::Zstd,
            Self::Bzip2 => Container::Bzip2,
        }
    }

    pub(super) fn compressor(self) -> Result<ChunkCompressor, CodecError> {
        match self {
            Self::Zstd(chunks) => ChunkCompressor::zstd(chunks.level),
            Self::Bzip2 => Ok(ChunkCompressor::Bzip2),
        }
    }

    /// Returns the maximum number of bytes of memory in a chunk.
    pub(super) fn chunk_bytes(self) -> u32 {
        match self {
            Self::Zstd(chunks) => chunks.bytes,
            Self::Bzip2 => streams::BLOCK,
        }
    }

    /// Returns the pages of a chunk.
    pub(super) fn chunk_pages(self, page_shift: u32) -> u32 {
        (self.chunk_bytes() >> page_shift).max(1)
    }
}
