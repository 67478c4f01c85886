//! Where the outputs of a measurement go.

use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_helpers::available_memory;
use rustix::fs::{statfs, statvfs};
use tempfile::TempDir;

/// In memory on every Linux with glibc.
const SHARED_MEMORY: &str = "/dev/shm";
/// TMPFS_MAGIC and RAMFS_MAGIC (linux/magic.h).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
/// Free memory that is left to the programs and the page cache: one in this many.
const LEFT_OVER: u64 = 4;

/// A directory of this process's own, gone in the end.
pub struct Place {
    directory: TempDir,
    /// Whether it is in memory; else a disk is measured too.
    pub in_memory: bool,
}

impl Place {
    /// A directory with room for `needed` bytes: in `wanted`, or else in
    /// memory, or else where temporary files go.
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
            "{}: the outputs need about {} MiB, and there is room for {} MiB; name a directory \
             with more room by --directory",
            parent.display(),
            needed.div_ceil(1 << 20),
            room >> 20
        );
        let directory = tempfile::Builder::new()
            .prefix("bigiron-bench-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .with_context(|| format!("{}: cannot make a directory in it", parent.display()))?;
        let in_memory = is_in_memory(directory.path());
        Ok(Self {
            directory,
            in_memory,
        })
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory it is in.
    pub fn parent(&self) -> &Path {
        self.directory.path().parent().unwrap_or(Path::new("/"))
    }
}

/// Bytes that can be written into `directory` without harm.
fn room(directory: &Path) -> anyhow::Result<u64> {
    let found = statvfs(directory).with_context(|| format!("{}", directory.display()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let memory = available_memory().filter(|_| is_in_memory(directory));
    Ok(memory.map_or(free, |memory| free.min(memory - memory / LEFT_OVER)))
}

/// Whether a file or directory is in memory.
pub fn is_in_memory(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|found| IN_MEMORY.contains(&found.f_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_sizes() {
        let wanted = env::temp_dir();
        let error = Place::choose(Some(&wanted), u64::MAX).err().unwrap();
        assert!(error.to_string().contains("--directory"), "{error}");
    }

    #[test]
    fn the_directory_is_nobody_elses_and_gone_in_the_end() {
        let place = Place::choose(Some(&env::temp_dir()), 1).unwrap();
        let file = place.file("x");
        std::fs::write(&file, "x").unwrap();
        let mode = file.parent().unwrap().metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        drop(place);
        assert!(!file.parent().unwrap().exists());
    }
}
