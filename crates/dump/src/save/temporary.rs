//! Files of the directory of saved dumps that are not complete yet, with their locks.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bigiron_helpers::Stop;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::DumpError;
use crate::output::OutputDirectory;

/// Delay between two attempts to lock.
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// An empty file that has no final name yet, with its lock.
pub struct Temporary<'a> {
    directory: &'a OutputDirectory,
    file: File,
    name: OsString,
    path: PathBuf,
}

impl<'a> Temporary<'a> {
    /// Creates the file that becomes `name`, or takes over the one of a killed run. Waits while
    /// another run writes it.
    pub fn lock(
        directory: &'a OutputDirectory,
        name: &str,
        stop: &Stop,
    ) -> Result<Self, DumpError> {
        loop {
            let taken = directory.take_temporary(name.as_ref());
            let path = directory.path().join(name);
            let (file, name) = taken.map_err(|error| failed(&path, "make a file for it", error))?;
            let path = directory.path().join(&name);
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP) => {}
                Err(Errno::WOULDBLOCK) => {
                    if stop.is_set() {
                        return Err(DumpError::Interrupted { kept: None });
                    }
                    thread::sleep(LOCK_WAIT);
                    continue;
                }
                Err(error) => return Err(failed(&path, "lock it", error.into())),
            }
            // The previous owner may have renamed or removed it.
            if !directory.is_name_of(&name, &file).unwrap_or(false) {
                if stop.is_set() {
                    return Err(DumpError::Interrupted { kept: None });
                }
                continue;
            }
            file.set_len(0)
                .map_err(|error| failed(&path, "empty it", error))?;
            return Ok(Self {
                directory,
                file,
                name,
                path,
            });
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Duplicates the open file, for a caller that closes it.
    pub fn file(&self) -> Result<File, DumpError> {
        self.file
            .try_clone()
            .map_err(|error| failed(&self.path, "use it", error))
    }

    /// Size in bytes.
    pub fn len(&self) -> Result<u64, DumpError> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| failed(&self.path, "look at it", error))?;
        Ok(metadata.len())
    }

    /// Writes the contents to the disk.
    pub fn sync(&self) -> Result<(), DumpError> {
        self.file
            .sync_all()
            .map_err(|error| failed(&self.path, "make it durable", error))
    }

    /// Renames the file to its final name, which no other file may have.
    pub fn rename(&self, to: &str) -> io::Result<()> {
        self.directory
            .rename(&self.file, &self.name, to.as_ref(), false)
    }

    /// Removes the file.
    pub fn discard(&self) {
        // A leftover file is harmless; the next run takes it over.
        let _ = self.directory.remove(&self.name);
    }
}

/// The error for a failed `action` on `path`.
pub fn failed(path: &Path, action: &'static str, source: io::Error) -> DumpError {
    DumpError::output(path, action, "")(source)
}
