//! Output that goes nowhere, for a dump that is only tried.

use std::io;
use std::path::PathBuf;

use super::Output;

/// Takes everything, as a file would, and keeps nothing.
pub struct DiscardedOutput;

impl Output for DiscardedOutput {
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        Ok(())
    }

    fn kept(&self) -> Option<PathBuf> {
        None
    }

    fn discard(&self) {}
}
