//! Output that tells who waits for it.

use std::io;
use std::path::PathBuf;

use super::Output;
use crate::progress::{Doing, Progress};

/// Notes in a [`Progress`] how many helpers are inside of a write, so that a
/// dump that stands still can say what it waits for.
pub struct WatchedOutput<'a> {
    output: &'a dyn Output,
    progress: &'a Progress,
}

impl<'a> WatchedOutput<'a> {
    /// Watches `output`.
    pub fn new(output: &'a dyn Output, progress: &'a Progress) -> Self {
        Self { output, progress }
    }
}

impl Output for WatchedOutput<'_> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _doing = self.progress.doing(Doing::Write);
        self.output.write_at(offset, bytes)
    }

    fn make_zero(&self, offset: u64, len: u64) -> io::Result<()> {
        let _doing = self.progress.doing(Doing::Write);
        self.output.make_zero(offset, len)
    }

    fn is_stream(&self) -> bool {
        self.output.is_stream()
    }

    fn flush_behind(&self, offset: u64, len: u64) -> io::Result<()> {
        let _doing = self.progress.doing(Doing::Write);
        self.output.flush_behind(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        let _doing = self.progress.doing(Doing::Sync);
        self.output.sync()
    }

    fn finish(&self) -> io::Result<()> {
        let _doing = self.progress.doing(Doing::Sync);
        self.output.finish()
    }

    fn kept(&self) -> Option<PathBuf> {
        self.output.kept()
    }

    fn discard(&self) {
        self.output.discard();
    }
}
