//! Pages held without a copy.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The bytes of pages, immutable while this is held. With a shared cache they are the cache's
/// own; holding many of them keeps the memory of as many chunks.
#[derive(Clone)]
pub struct SharedPages {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl SharedPages {
    /// Wraps `range` of the bytes of `owner`.
    pub(crate) fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Self {
        Self { owner, range }
    }

    /// Keeps `part` of the bytes only, as far as there are so many.
    pub(super) fn part(mut self, part: Range<usize>) -> Self {
        let at = |offset: usize| self.range.start.saturating_add(offset).min(self.range.end);
        self.range = at(part.start)..at(part.end);
        self
    }

    /// Copies `bytes`.
    pub(crate) fn copy(bytes: &[u8]) -> Self {
        Self::new(Arc::new(bytes.to_vec()), 0..bytes.len())
    }
}

impl Deref for SharedPages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = (*self.owner).as_ref();
        all.get(self.range.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for SharedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedPages({} bytes)", self.len())
    }
}
