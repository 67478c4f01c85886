//! Output to a file, or to a device that takes the file's bytes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, fadvise};

use super::direct::DirectFile;
use super::name::FinalName;
use super::{Output, reader, zero};
use crate::error::DumpError;

/// Bytes between two syncs of a file whose writer is to be as slow as the disk: enough to hide
/// the fixed cost of a sync.
const SYNC_INTERVAL: u64 = 32 << 20;

/// A file that gets its final name only when it is complete and durable.
#[derive(Debug)]
pub struct FileOutput {
    file: File,
    path: PathBuf,
    /// The name that it gets; `None` for a device, which is not renamed.
    name: Option<FinalName>,
    readable: bool,
    /// True if the size is fixed and unwritten bytes have any value.
    is_device: bool,
    /// Offset of the dump in the file.
    base: u64,
    /// Offset in the file at which the room for the dump ends.
    end: u64,
    /// The file once more, for writes past the page cache; `None` where they are of no use.
    direct: Option<DirectFile>,
    /// Bytes written since the last sync of [`Output::flush_behind`].
    unsynced: AtomicU64,
}

impl FileOutput {
    /// Creates a file with mode 0600 under a temporary name in the directory of `path`, or opens
    /// the device at `path`.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, DumpError> {
        let error = |action, hint| DumpError::output(path, action, hint);
        match fs::metadata(path) {
            // A dangling link would make the final rename fail.
            Err(_) if path.is_symlink() && !overwrite => {
                let exists = io::Error::from(io::ErrorKind::AlreadyExists);
                return Err(error("make it", " (--overwrite replaces it)")(exists));
            }
            Ok(metadata) if metadata.is_file() && !overwrite => {
                let exists = io::Error::from(io::ErrorKind::AlreadyExists);
                return Err(error("make it", " (--overwrite replaces it)")(exists));
            }
            Ok(metadata) if metadata.is_dir() => {
                let is_directory = io::Error::from(io::ErrorKind::IsADirectory);
                return Err(error("write to it", "; give the name of a file")(
                    is_directory,
                ));
            }
            Ok(metadata) if !metadata.is_file() => {
                reader::check_path(path).map_err(error("write to it", ""))?;
                let mut options = OpenOptions::new();
                let readable = metadata.file_type().is_block_device();
                let file = options
                    .read(readable)
                    .write(true)
                    .open(path)
                    .map_err(error("open it for writing", ""))?;
                reader::check_opened(&file).map_err(error("write to it", ""))?;
                return Ok(Self {
                    readable,
                    ..Self::in_device(file, path.to_owned(), 0, u64::MAX)
                });
            }
            _ => {}
        }
        let (file, name) = FinalName::begin(path, overwrite).map_err(|source| {
            let hint = match source.kind() {
                io::ErrorKind::NotFound => "; the directory is not there",
                io::ErrorKind::PermissionDenied => {
                    "; no permission to list or write to the directory"
                }
                _ => "",
            };
            error("make a file beside it", hint)(source)
        })?;
        Ok(Self {
            name: Some(name),
            ..Self::in_new_file(file, path.to_owned())
        })
    }

    /// Writes to an empty file that is open for reading and writing. The caller renames it from
    /// `path`.
    pub fn in_new_file(file: File, path: PathBuf) -> Self {
        Self {
            is_device: false,
            ..Self::in_device(file, path, 0, u64::MAX)
        }
    }

    /// Writes to the range from `base` to `end` of a device that is open for reading and
    /// writing.
    pub fn in_device(file: File, path: PathBuf, base: u64, end: u64) -> Self {
        Self {
            file,
            direct: None,
            path,
            name: None,
            readable: true,
            is_device: true,
            base,
            end,
            unsynced: AtomicU64::new(0),
        }
    }

    /// Writes past the page cache from now on, where the file is on a disk of this machine.
    pub fn past_page_cache(self) -> Self {
        Self {
            direct: DirectFile::of(&self.file),
            ..self
        }
    }

    /// Warnings about the directory.
    pub fn warnings(&self) -> Vec<String> {
        self.name
            .as_ref()
            .map_or_else(Vec::new, FinalName::warnings)
    }

    /// True if written bytes can be read back.
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// Reads back written bytes; unwritten ranges are zero.
    pub fn read_back(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = self.base + offset + done as u64;
            match self.file.read_at(&mut buf[done..], at) {
                Ok(0) => {
                    buf[done..].fill(0);
                    break;
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes a file `size` bytes long, or checks that a device has room for that many.
    pub fn set_size(&self, size: u64) -> io::Result<()> {
        if self.is_device {
            self.check_room(0, size)
        } else {
            self.file.set_len(size)
        }
    }

    /// Fails unless there is room for `len` bytes at `offset` of the dump.
    fn check_room(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.checked_add(len);
        if end.is_some_and(|end| end <= self.end - self.base) {
            return Ok(());
        }
        let room = self.end - self.base;
        let text = format!("No space left on device: it has room for a dump of {room} bytes");
        Err(io::Error::new(io::ErrorKind::StorageFull, text))
    }

    /// Ignores the EINVAL of pipes and character devices, which have nothing to make durable.
    fn check_synced(&self, synced: io::Result<()>) -> io::Result<()> {
        match synced {
            Err(error) if self.is_device && error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }

    /// Gives the file its final name, durably. After an error it does not have that name.
    pub fn give_name(&self) -> io::Result<()> {
        match &self.name {
            Some(name) => name.give(&self.file),
            None => Ok(()),
        }
    }

    /// True if aligned writes go to the disk at once, past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.as_ref().is_some_and(DirectFile::is_used)
    }

    /// Returns the open file, for sequential writes.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Output for FileOutput {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_room(offset, bytes.len() as u64)?;
        let offset = self.base + offset;
        let direct = match &self.direct {
            Some(direct) => direct.write_pages_at(bytes, offset)?,
            None => 0..0,
        };
        let end = offset + direct.end as u64;
        self.file.write_all_at(&bytes[..direct.start], offset)?;
        self.file.write_all_at(&bytes[direct.end..], end)
    }

    /// A new file is all zeros; a device may not be.
    fn make_zero(&self, offset: u64, len: u64) -> io::Result<()> {
        // A device that cannot be read, such as /dev/null, holds no old data.
        if !self.is_device || !self.readable || len == 0 {
            return Ok(());
        }
        self.check_room(offset, len)?;
        zero::make_zero(&self.file, self.base + offset, len)
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn flush_behind(&self, offset: u64, len: u64) -> io::Result<()> {
        let Some(size) = NonZeroU64::new(len) else {
            return Ok(());
        };
        // The kernel starts writeback of pages that are not needed any more (generic_fadvise,
        // mm/fadvise.c). It does not have to, so errors are ignored.
        let _ = fadvise(&self.file, self.base + offset, Some(size), Advice::DontNeed);
        if self.unsynced.fetch_add(len, Ordering::Relaxed) + len < SYNC_INTERVAL {
            return Ok(());
        }
        self.unsynced.store(0, Ordering::Relaxed);
        self.check_synced(self.file.sync_data())
    }

    fn sync(&self) -> io::Result<()> {
        self.check_synced(self.file.sync_data())
    }

    fn finish(&self) -> io::Result<()> {
        self.check_synced(self.file.sync_all())?;
        self.give_name()
    }

    fn take_back(&self) {
        if let Some(name) = &self.name {
            name.take_back(&self.file);
        }
    }

    fn kept(&self) -> Option<PathBuf> {
        let name = self.name.as_ref().map(FinalName::current);
        Some(name.unwrap_or_else(|| self.path.clone()))
    }

    fn discard(&self) {
        if let Some(name) = &self.name {
            name.discard();
        }
    }

    fn as_file(&self) -> Option<&FileOutput> {
        Some(self)
    }
}
