//! The name of a file that is not complete yet, and the one that it gets.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::OutputDirectory;

/// A temporary name, and the final one.
#[derive(Debug)]
pub struct FinalName {
    /// The final path.
    path: PathBuf,
    directory: OutputDirectory,
    temporary: OsString,
    to: OsString,
    overwrite: bool,
    /// True while the file has its final name.
    is_given: AtomicBool,
}

impl FinalName {
    /// Creates the file that becomes `path`, with mode 0600, in the same directory.
    pub fn begin(path: &Path, overwrite: bool) -> io::Result<(File, Self)> {
        Self::begin_in(OutputDirectory::of_file(path)?, path, overwrite)
    }

    fn begin_in(
        directory: OutputDirectory,
        path: &Path,
        overwrite: bool,
    ) -> io::Result<(File, Self)> {
        let to = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let (file, temporary) = directory.create_temporary(to)?;
        let name = Self {
            path: path.to_owned(),
            directory,
            temporary,
            to: to.to_owned(),
            overwrite,
            is_given: AtomicBool::new(false),
        };
        Ok((file, name))
    }

    /// Warnings about the directory.
    pub fn warnings(&self) -> Vec<String> {
        self.directory.warnings()
    }

    /// The path of the file.
    pub fn current(&self) -> PathBuf {
        match self.is_given.load(Ordering::Relaxed) {
            true => self.path.clone(),
            false => self.path.with_file_name(&self.temporary),
        }
    }

    /// Renames `file` to its final name, durably. After an error it does not have that name.
    pub fn give(&self, file: &File) -> io::Result<()> {
        let directory = &self.directory;
        directory.rename(file, &self.temporary, &self.to, self.overwrite)?;
        self.is_given.store(true, Ordering::Relaxed);
        directory.sync().map_err(|error| {
            self.take_back(file);
            let name = directory.path().display();
            let text = format!("the names in the directory {name} cannot be made durable: {error}");
            io::Error::new(error.kind(), text)
        })
    }

    /// Renames `file` back to its temporary name, unless another file has that name.
    pub fn take_back(&self, file: &File) {
        let directory = &self.directory;
        // The error that led here is the one to report.
        if self.is_given.load(Ordering::Relaxed)
            && directory
                .rename(file, &self.to, &self.temporary, false)
                .is_ok()
        {
            self.is_given.store(false, Ordering::Relaxed);
        }
    }

    /// Removes the file, unless it has its final name.
    pub fn discard(&self) {
        if !self.is_given.load(Ordering::Relaxed) {
            // The error that led here is the one to report.
            let _ = self.directory.remove(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::fs;

    use super::*;

    #[test]
    fn directory_that_cannot_be_synced_is_named_and_the_name_taken_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        let directory = OutputDirectory::open_without_sync(root.path()).unwrap();
        let (file, name) = FinalName::begin_in(directory, &path, false).unwrap();
        let text = name.give(&file).unwrap_err().to_string();
        let expected = format!("the directory {} cannot", root.path().display());
        assert!(text.contains(&expected), "{text}");
        assert_eq!(name.current(), root.path().join("out.incomplete"));
        assert!(name.current().exists() && !path.exists());
    }

    #[test]
    fn file_whose_temporary_name_was_taken_meanwhile_is_still_found() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        let (file, name) = FinalName::begin(&path, false).unwrap();
        name.give(&file).unwrap();
        assert_eq!(name.current(), path);
        fs::write(root.path().join("out.incomplete"), b"of another run").unwrap();
        name.take_back(&file);
        assert_eq!(name.current(), path);
        name.discard();
        assert!(path.exists() && root.path().join("out.incomplete").exists());
    }
}
