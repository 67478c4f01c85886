//! Keeps the bitmap of kept pages between filtering and copying.

use std::sync::OnceLock;

use bigiron_format::bitmap::Bitmap;

use crate::output::FileOutput;

/// Bytes of one chunk's bitmap.
pub const CHUNK_BYTES: usize = bigiron_kernel::CHUNK_FRAMES as usize / 8;

/// Where the bitmaps of kept pages are. They grow with the machine (32 MiB
/// for each TiB), so they stay in memory only where they fit the budget.
pub enum BitmapStore<'a> {
    /// In the output file, which holds the bitmap anyway: from this offset on.
    InOutput(&'a FileOutput, u64),
    /// In memory, by the number of the chunk in the plan.
    InMemory(Vec<OnceLock<Box<[u8]>>>),
    /// Nowhere: the filter decides again. A dead kernel's pages do not change.
    Again,
}

impl BitmapStore<'_> {
    /// A store in memory for `chunks` chunks.
    pub fn in_memory(chunks: usize) -> Self {
        Self::InMemory((0..chunks).map(|_| OnceLock::new()).collect())
    }

    /// Memory that `chunks` chunks take.
    pub fn memory_size(chunks: usize) -> u64 {
        chunks as u64 * (CHUNK_BYTES as u64 + 32)
    }

    /// Keeps the bitmap of the `index`-th chunk of the plan.
    pub fn keep(&self, index: usize, bits: &Bitmap) {
        if let Self::InMemory(chunks) = self
            && let Some(chunk) = chunks.get(index)
        {
            let _ = chunk.set(bits.as_bytes()[..CHUNK_BYTES].into());
        }
    }
}
