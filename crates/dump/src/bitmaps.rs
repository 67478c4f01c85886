//! Keeps the bitmap of kept pages between filtering and copying.

use std::sync::OnceLock;

use bigiron_format::bitmap::Bitmap;

use crate::output::FileOutput;

/// Bytes of one chunk's bitmap.
pub const CHUNK_BYTES: usize = bigiron_kernel::CHUNK_FRAMES as usize / 8;
/// What a chunk takes in memory: its bitmap, its place in the table, and what
/// the allocator adds.
const CHUNK_MEMORY: u64 = CHUNK_BYTES as u64 + 64;

/// Where the bitmaps of kept pages are. They grow with the machine, 32 MiB
/// for each TiB.
pub enum BitmapStore<'a> {
    /// In the output file, which holds the bitmap anyway: from this offset on.
    InOutput(&'a FileOutput, u64),
    /// In memory, by the number of the chunk in the plan, those of the first
    /// chunks. About the others the filter decides again.
    InMemory(Vec<OnceLock<Box<[u8]>>>),
}

impl BitmapStore<'_> {
    /// A store in memory for as many of `chunks` chunks as `bytes` hold.
    pub fn in_memory(chunks: usize, bytes: u64) -> Self {
        let fit = usize::try_from(bytes / CHUNK_MEMORY).unwrap_or(usize::MAX);
        Self::InMemory((0..chunks.min(fit)).map(|_| OnceLock::new()).collect())
    }

    /// Keeps the bitmap of the `index`-th chunk of the plan, if it has room.
    pub fn keep(&self, index: usize, bits: &Bitmap) {
        if let Self::InMemory(chunks) = self
            && let Some(chunk) = chunks.get(index)
        {
            let _ = chunk.set(bits.as_bytes()[..CHUNK_BYTES].into());
        }
    }
}
