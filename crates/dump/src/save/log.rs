//! The kernel log beside a saved dump, `dmesg.N`.

use std::io::{self, Write};
use std::path::PathBuf;

use bigiron_helpers::Stop;

use super::directory::Directory;
use super::saved::Saved;
use super::space;
use super::temporary::Temporary;
use crate::error::DumpError;

/// Name before the number.
const STEM: &str = "dmesg";
/// Maximum size of a saved log, in bytes. The kernel's buffer has up to 2 GiB
/// (LOG_BUF_LEN_MAX, kernel/printk/printk.c), but few machines have more than 16 MiB.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes between two checks of the free space.
const CHECK_INTERVAL: u64 = 1 << 20;

/// The result of saving a log.
#[derive(Debug)]
pub struct SavedLog {
    /// The log's file; `None` if there was no space for any of it.
    pub path: Option<PathBuf>,
    /// The reason why the log is truncated.
    pub truncated: Option<String>,
    /// Warnings about files in the directory, besides those of [`Saved::warnings`].
    pub warnings: Vec<String>,
}

/// Saves the kernel log of `saved`, which `print` writes, as `dmesg.N`, unless an earlier run has.
/// The free space that the file `minfree` demands stays free: the log is truncated instead.
///
/// # Errors
/// Those of `print` and of the disk, and a file of another user in the log's place.
pub fn save_log<E: From<DumpError>>(
    saved: &Saved,
    stop: &Stop,
    print: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<SavedLog, E> {
    let root = saved.path.parent().unwrap_or(saved.path.as_path());
    let directory = Directory::open(root)?;
    let path = directory.path(STEM, saved.number);
    if let Some(reason) = directory.distrust_of(STEM, saved.number) {
        let error = io::Error::new(io::ErrorKind::AlreadyExists, format!("it {reason}"));
        return Err(DumpError::output(&path, "replace it", "")(error).into());
    }
    let result = |path, truncated| {
        let mut warnings = directory.warnings();
        warnings.retain(|warning| !saved.warnings.contains(warning));
        SavedLog {
            path,
            truncated,
            warnings,
        }
    };
    if directory.size_of(STEM, saved.number).is_some() {
        return Ok(result(Some(path), None));
    }
    let temporary = directory.lock_numbered(STEM, saved.number, stop)?;
    // The previous owner of the lock may have saved it.
    if directory.size_of(STEM, saved.number).is_some() {
        temporary.discard();
        return Ok(result(Some(path), None));
    }
    let mut file = temporary.file()?;
    let mut limited = Limited::new(&directory, &mut file, stop);
    let printed = print(&mut limited);
    let Limited {
        written, truncated, ..
    } = limited;
    let finish = || -> Result<SavedLog, E> {
        if truncated.is_none() {
            printed?;
        }
        if truncated.is_some() && written == 0 {
            temporary.discard();
            return Ok(result(None, truncated));
        }
        name(&directory, &temporary, saved.number)?;
        Ok(result(Some(path), truncated))
    };
    finish().inspect_err(|_| temporary.discard())
}

fn name(directory: &Directory, log: &Temporary, number: u64) -> Result<(), DumpError> {
    log.sync()?;
    directory.name_as(log, STEM, number)
}

/// A writer that ends before the space does.
struct Limited<'a, W> {
    directory: &'a Directory,
    inner: W,
    stop: &'a Stop,
    written: u64,
    /// Value of `written` at which the free space is checked again.
    checked_until: u64,
    /// Value of `written` at which the log ends.
    end: u64,
    /// The reason why the log ends early.
    truncated: Option<String>,
}

impl<'a, W: Write> Limited<'a, W> {
    fn new(directory: &'a Directory, inner: W, stop: &'a Stop) -> Self {
        Self {
            directory,
            inner,
            stop,
            written: 0,
            checked_until: 0,
            end: MAX_BYTES,
            truncated: None,
        }
    }

    /// Ends the log.
    fn truncate(&mut self, reason: &str) -> io::Error {
        let written = self.written;
        let text = format!("log truncated after {written} bytes: {reason}");
        self.truncated = Some(text.clone());
        io::Error::new(io::ErrorKind::StorageFull, text)
    }

    /// Returns the number of bytes that may be written now.
    fn room(&mut self) -> io::Result<u64> {
        if self.written >= self.checked_until {
            let spare = space::spare(self.directory).unwrap_or(u64::MAX);
            self.end = MAX_BYTES.min(self.written.saturating_add(spare));
            self.checked_until = self.written.saturating_add(CHECK_INTERVAL);
        }
        match self.end.saturating_sub(self.written) {
            0 if self.written >= MAX_BYTES => {
                Err(self.truncate("that is the maximum size of a saved log"))
            }
            0 => Err(self.truncate("the rest of the disk must stay free")),
            room => Ok(room.min(CHECK_INTERVAL)),
        }
    }
}

impl<W: Write> Write for Limited<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.stop.is_set() {
            return Err(io::Error::other("interrupted"));
        }
        let room = self.room()?;
        let len = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        match self.inner.write(&bytes[..len]) {
            Ok(written) => {
                self.written = self.written.saturating_add(written as u64);
                Ok(written)
            }
            Err(error) if is_full(&error) => Err(self.truncate(&error.to_string())),
            Err(error) => Err(error),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use bigiron_format::device::DumpId;

    use super::*;

    const TEXT: &[u8] = b"[    0.000000] Linux version 6.12\n";

    fn saved(root: &Path) -> Saved {
        Saved {
            id: DumpId::default(),
            number: 3,
            path: root.join("vmdump.3"),
            before: false,
            bytes: 0,
            copied: 0,
            damage: None,
            unreadable: None,
            encrypted: false,
            warnings: Vec::new(),
        }
    }

    fn save(root: &Path, stop: &Stop) -> Result<SavedLog, DumpError> {
        save_log(&saved(root), stop, |out| {
            out.write_all(TEXT).map_err(DumpError::write(root))
        })
    }

    #[test]
    fn log_is_private_and_replaces_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dmesg.3");
        // Left by a killed run.
        let left = root.path().join("dmesg.3.incomplete");
        fs::write(&left, vec![b'x'; 1000]).unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
        for _ in 0..2 {
            let log = save(root.path(), &Stop::new()).unwrap();
            assert_eq!((log.path.as_ref(), log.truncated), (Some(&path), None));
            assert_eq!(fs::read(&path).unwrap(), TEXT);
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!left.exists());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let error = save(root.path(), &Stop::new()).unwrap_err().to_string();
        assert!(error.contains("dmesg.3"), "{error}");
    }

    #[test]
    fn log_leaves_the_space_that_must_stay_free() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("minfree"), u64::MAX.to_string()).unwrap();
        let log = save(root.path(), &Stop::new()).unwrap();
        assert_eq!(log.path, None);
        assert!(log.truncated.unwrap().contains("log truncated"));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn log_has_a_maximum_size() {
        let root = tempfile::tempdir().unwrap();
        let (directory, stop) = (Directory::open(root.path()).unwrap(), Stop::new());
        let mut limited = Limited::new(&directory, io::sink(), &stop);
        limited.written = MAX_BYTES - 1;
        assert_eq!(limited.write(b"two").unwrap(), 1);
        assert!(limited.write(b"wo").is_err());
        assert!(limited.truncated.unwrap().contains("maximum"));
    }

    #[test]
    fn signal_ends_the_log() {
        let root = tempfile::tempdir().unwrap();
        let stop = Stop::new();
        stop.set();
        assert!(save(root.path(), &stop).is_err());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
