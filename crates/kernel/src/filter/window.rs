//! How many struct pages to read at once.

/// Bytes read where verdicts reach so far that most of a longer run would be
/// read for nothing: a free block of 4 MiB has struct pages of 64 KiB.
const SHORTEST: u64 = 16 << 10;
/// As much as stays in a core's cache between the copy and the look at it.
const LONGEST: u64 = 256 << 10;
/// A verdict that reaches over fewer struct pages saves nothing: a call of
/// read() costs as much as to copy them.
const WORTHWHILE_LEAP: u64 = 256;

/// The length of the next run of struct pages: it grows while they are looked
/// at, and shrinks where they are leapt over.
#[derive(Debug)]
pub(super) struct Window {
    bytes: u64,
    leapt: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            bytes: SHORTEST,
            leapt: 0,
        }
    }
}

impl Window {
    /// Bytes to read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A run begins.
    pub(super) fn begin(&mut self) {
        self.leapt = 0;
    }

    /// A verdict went on over `frames` that need no look.
    #[inline]
    pub(super) fn leap(&mut self, frames: u64) {
        if frames >= WORTHWHILE_LEAP {
            self.leapt = self.leapt.saturating_add(frames);
        }
    }

    /// A run of `frames` ended.
    pub(super) fn end(&mut self, frames: u64) {
        self.bytes = if self.leapt > frames / 2 {
            SHORTEST
        } else {
            (self.bytes * 2).min(LONGEST)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_where_pages_are_looked_at_and_shrinks_where_they_are_leapt_over() {
        let mut window = Window::default();
        for _ in 0..10 {
            window.begin();
            window.leap(WORTHWHILE_LEAP - 1);
            window.end(512);
        }
        assert_eq!(window.bytes(), LONGEST);
        window.begin();
        window.leap(960);
        window.end(4096);
        assert_eq!(window.bytes(), LONGEST);
        window.begin();
        window.leap(960);
        window.leap(960);
        window.leap(960);
        window.end(4096);
        assert_eq!(window.bytes(), SHORTEST);
    }
}
