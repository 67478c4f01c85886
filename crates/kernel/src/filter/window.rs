//! Chooses how many struct pages to read at once.

/// Bytes read where verdicts cover so many pages that most of a longer run would be read in
/// vain: a free block of 4 MiB has struct pages of 64 KiB.
const MIN_BYTES: u64 = 16 << 10;
/// What fits into a core's cache between the copy and the classification.
const MAX_BYTES: u64 = 256 << 10;
/// Verdicts over fewer struct pages save nothing: a read() call costs as much as copying them.
const MIN_SKIP: u64 = 256;

/// The length of the next run of struct pages: it grows while pages are read, and shrinks where
/// they are skipped.
#[derive(Debug)]
pub(super) struct Window {
    bytes: u64,
    leapt: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            bytes: MIN_BYTES,
            leapt: 0,
        }
    }
}

impl Window {
    /// Bytes to read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Starts a run.
    pub(super) fn begin(&mut self) {
        self.leapt = 0;
    }

    /// Records a verdict that covers `frames` struct pages that are not read.
    #[inline]
    pub(super) fn leap(&mut self, frames: u64) {
        if frames >= MIN_SKIP {
            self.leapt = self.leapt.saturating_add(frames);
        }
    }

    /// Ends a run of `frames`.
    pub(super) fn end(&mut self, frames: u64) {
        self.bytes = if self.leapt > frames / 2 {
            MIN_BYTES
        } else {
            (self.bytes * 2).min(MAX_BYTES)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_grows_while_pages_are_read_and_shrinks_where_they_are_skipped() {
        let mut window = Window::default();
        for _ in 0..10 {
            window.begin();
            window.leap(MIN_SKIP - 1);
            window.end(512);
        }
        assert_eq!(window.bytes(), MAX_BYTES);
        window.begin();
        window.leap(960);
        window.end(4096);
        assert_eq!(window.bytes(), MAX_BYTES);
        window.begin();
        window.leap(960);
        window.leap(960);
        window.leap(960);
        window.end(4096);
        assert_eq!(window.bytes(), MIN_BYTES);
    }
}
