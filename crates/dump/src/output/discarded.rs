//! Output that stores nothing, for dry runs.

use std::io;
use std::path::PathBuf;

use super::{FileOutput, Output};

/// Accepts everything, as a file would, and stores nothing.
pub struct DiscardedOutput;

impl Output for DiscardedOutput {
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn make_zero(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn flush_behind(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        Ok(())
    }

    fn take_back(&self) {}

    fn kept(&self) -> Option<PathBuf> {
        None
    }

    fn discard(&self) {}

    fn as_file(&self) -> Option<&FileOutput> {
        None
    }
}
