//! The directory for the outputs of a measurement.

use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_helpers::available_memory;
use rustix::fs::{statfs, statvfs};
use tempfile::TempDir;

/// In memory on every Linux system with glibc.
const SHARED_MEMORY: &str = "/dev/shm";
/// TMPFS_MAGIC and RAMFS_MAGIC (linux/magic.h).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// One part in this many of the free memory is left to the programs and the page cache.
const LEFT_OVER: u64 = 4;

/// A temporary directory of this process, removed on drop.
pub struct OutputDirectory {
    directory: TempDir,
    /// True if the directory is in memory; otherwise the disk is measured as well.
    pub in_memory: bool,
}

impl OutputDirectory {
    /// Creates a directory with room for `needed` bytes: in `wanted` if given, otherwise in
    /// memory, or else in the directory for temporary files.
    pub fn choose(wanted: Option<&Path>, needed: u64) -> anyhow::Result<Self> {
        let parent = match wanted {
            Some(wanted) => wanted.to_owned(),
            None if room(Path::new(SHARED_MEMORY)).is_ok_and(|room| room >= needed) => {
                PathBuf::from(SHARED_MEMORY)
            }
            None => env::temp_dir(),
        };
        let room = room(&parent)?;
        anyhow::ensure!(
            room >= needed,
            "{}: the outputs need about {} MiB, and {} MiB are available; choose a directory \
             with more room by --directory",
            parent.display(),
            needed.div_ceil(1 << 20),
            room >> 20
        );
        let directory = tempfile::Builder::new()
            .prefix("bigiron-bench-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .with_context(|| format!("{}: cannot create a directory in it", parent.display()))?;
        let in_memory = is_in_memory(directory.path());
        Ok(Self {
            directory,
            in_memory,
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of a file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the parent directory.
    pub fn parent(&self) -> &Path {
        self.directory.path().parent().unwrap_or(Path::new("/"))
    }
}

/// Returns the number of bytes that can be written to `directory` without harm.
fn room(directory: &Path) -> anyhow::Result<u64> {
    let found = statvfs(directory).with_context(|| format!("{}", directory.display()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let memory = available_memory().filter(|_| is_in_memory(directory));
    Ok(memory.map_or(free, |memory| free.min(memory - memory / LEFT_OVER)))
}

/// True if a file or directory is in memory.
pub fn is_in_memory(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|found| IN_MEMORY.contains(&(found.f_type as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insufficient_space_is_an_error_with_both_sizes() {
        let wanted = env::temp_dir();
        let error = OutputDirectory::choose(Some(&wanted), u64::MAX)
            .err()
            .unwrap();
        assert!(error.to_string().contains("--directory"), "{error}");
    }

    #[test]
    fn directory_is_private_and_removed_on_drop() {
        let place = OutputDirectory::choose(Some(&env::temp_dir()), 1).unwrap();
        let file = place.file("x");
        std::fs::write(&file, "x").unwrap();
        let mode = file.parent().unwrap().metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        drop(place);
        assert!(!file.parent().unwrap().exists());
    }
}
