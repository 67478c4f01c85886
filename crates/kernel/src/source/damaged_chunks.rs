//! Chunks that failed once: each of their pages would otherwise read and decompress them again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bigiron_format::FormatError;

/// Maximum number of chunks remembered; the oldest are forgotten.
const MAX_CHUNKS: usize = 1024;

/// The chunks that failed most recently.
#[derive(Debug, Default)]
pub(super) struct DamagedChunks(Mutex<VecDeque<Failed>>);

#[derive(Debug)]
struct Failed {
    /// Index of the file, and the chunk's offset in it.
    place: (usize, u64),
    error: FormatError,
}

impl DamagedChunks {
    /// Returns the error of the chunk at `offset` of file `part`, if it failed before.
    pub(super) fn find(&self, part: usize, offset: u64) -> Option<FormatError> {
        let chunks = self.lock();
        // The last one failed is the next one asked for.
        let mut latest = chunks.iter().rev();
        let failed = latest.find(|failed| failed.place == (part, offset))?;
        Some(failed.error.again())
    }

    /// Remembers the error of a chunk, and returns it.
    pub(super) fn remember(&self, part: usize, offset: u64, error: FormatError) -> FormatError {
        let mut chunks = self.lock();
        if chunks.len() == MAX_CHUNKS {
            chunks.pop_front();
        }
        chunks.push_back(Failed {
            place: (part, offset),
            error: error.again(),
        });
        error
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Failed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_chunks_are_remembered_and_the_oldest_forgotten() {
        let chunks = DamagedChunks::default();
        let error = |offset| FormatError::unexpected("a chunk", offset, "one", "another");
        for offset in 0..=MAX_CHUNKS as u64 {
            chunks.remember(1, offset, error(offset));
        }
        assert!(chunks.find(1, 0).is_none());
        assert!(chunks.find(0, 7).is_none());
        let found = chunks.find(1, 7).map(|error| error.to_string());
        assert_eq!(found, Some(error(7).to_string()));
    }
}
