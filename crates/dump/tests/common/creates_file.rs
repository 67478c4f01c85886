//! A source beside whose dump a file appears.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bigiron_dump::{Phase, Progress};
use bigiron_format::ReadAt;

use super::machine::core;

/// A source that creates a file as soon as pages are copied.
pub struct CreatesFile {
    pub path: PathBuf,
    pub progress: Arc<Progress>,
}

impl ReadAt for CreatesFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.progress.phase() == Phase::Copying {
            fs::write(&self.path, b"foreign")?;
        }
        core().read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        core().len() as u64
    }
}
