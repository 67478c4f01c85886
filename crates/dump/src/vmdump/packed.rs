//! Chunks and records on their way into a vmdump.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bigiron_format::vmdump::Chunk;

/// A chunk that has no offset yet.
pub(super) enum Packed {
    /// Compressed.
    Chunk(PackedChunk),
    /// Excluded pages only.
    Excluded {
        /// Position in the core.
        position: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// A compressed chunk with room for its header.
#[derive(Clone)]
pub(super) struct PackedChunk {
    /// The chunk; its offset is not known yet.
    pub(super) chunk: Chunk,
    /// Room for the chunk's header, then the compressed bytes.
    pub(super) bytes: Vec<u8>,
    /// XXH3 of the compressed bytes.
    pub(super) checksum: u64,
}

/// Bytes with their part and offset.
pub(super) struct PlacedRecord {
    /// Number of the part.
    pub(super) part: usize,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// Buffers for reuse.
#[derive(Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Returns a used buffer, or a new one.
    pub(super) fn take(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    /// Stores a buffer for reuse.
    pub(super) fn give(&self, buffer: Vec<u8>) {
        self.lock().push(buffer);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
