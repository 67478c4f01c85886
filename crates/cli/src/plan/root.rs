//! Files below a root directory: /, or that of a test.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

/// Largest file that is read: settings, and files of /proc and /sys.
const MAX_BYTES: u64 = 16 << 20;

/// The directory that has etc, proc, sys and the other directories of a machine.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// `directory` as the root.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The path of a file, whose name may be absolute.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        let name = name.as_ref();
        self.0.join(name.strip_prefix("/").unwrap_or(name))
    }

    /// The root itself.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// The text of a file; `None` if it is missing, no text, or very large.
    pub fn read(&self, name: impl AsRef<Path>) -> Option<String> {
        let path = self.path(name);
        let is_readable = fs::metadata(&path).is_ok_and(|found| found.len() <= MAX_BYTES);
        is_readable.then(|| fs::read_to_string(path).ok()).flatten()
    }

    /// The first word of a file, as those of /proc/sys and /sys have.
    pub fn word(&self, name: &str) -> Option<String> {
        let text = self.read(name)?;
        text.split_ascii_whitespace().next().map(ToOwned::to_owned)
    }

    /// The number in a file.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.word(name)?.parse().ok()
    }

    /// What a name leads to.
    pub fn metadata(&self, name: impl AsRef<Path>) -> Option<Metadata> {
        fs::metadata(self.path(name)).ok()
    }

    /// True if there is such a name, even of a link that leads nowhere here.
    pub fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }
}
