//! The cache that the clients of debuginfod share (debuginfod_find_debuginfo(3)).

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::folder;
use crate::wanted::Wanted;

/// Name of the cache in the user's folder for caches.
const NAME: &str = "debuginfod_client";
/// Name of a file in the folder of its build id.
const FILE: &str = "debuginfo";
const MODE: u32 = 0o700;

/// A folder with a file for each build id.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

impl Cache {
    /// That of `DEBUGINFOD_CACHE_PATH`, or of the user's folder for caches; `None` without either.
    pub fn of_user() -> Option<Self> {
        let set = |name: &str| -> Option<OsString> {
            env::var_os(name).filter(|value| !value.is_empty())
        };
        if let Some(path) = set("DEBUGINFOD_CACHE_PATH") {
            return Some(Self(path.into()));
        }
        let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
        Some(Self(caches?.join(NAME)))
    }

    /// The cache in a folder.
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Makes the folder.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn make(&self) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(MODE).create(&self.0)
    }

    /// Finds what is wanted.
    pub(crate) fn find(&self, wanted: &Wanted) -> Option<(File, PathBuf)> {
        folder::open(&self.path(wanted), wanted)
    }

    /// Returns a new file, which [`Self::keep`] makes one of the cache.
    pub(crate) fn begin(&self) -> io::Result<NamedTempFile> {
        Builder::new().prefix(".bigiron.").tempfile_in(&self.0)
    }

    /// Keeps a file under its build id.
    pub(crate) fn keep(&self, file: NamedTempFile, wanted: &Wanted) -> io::Result<PathBuf> {
        let path = self.path(wanted);
        if let Some(folder) = path.parent() {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(MODE).create(folder)?;
        }
        file.persist(&path)?;
        Ok(path)
    }

    fn path(&self, wanted: &Wanted) -> PathBuf {
        self.0.join(wanted.build_id()).join(FILE)
    }
}
