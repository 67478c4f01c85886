//! A file that is not whole yet.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file under a temporary name beside its own, which it gets when it is
/// whole, or when nothing more will come.
pub struct Unfinished {
    pub file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl Unfinished {
    /// Makes it, for nobody else to read.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut temporary = OsString::from(path);
        temporary.push(".incomplete");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        Ok(Self {
            file,
            temporary: temporary.into(),
            path: path.to_owned(),
        })
    }

    /// Gives it its name, whole or not.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)
    }

    /// Nothing of use came.
    pub fn discard(self) {
        let _ = fs::remove_file(&self.temporary);
    }
}
