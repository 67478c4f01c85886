//! A directory in which files are made, and to which other users may write as well.
//!
//! All operations are relative to the open directory, follow no symbolic link in it, and do not
//! wait for another program. A file is either made by this program, exclusively and with mode
//! 0600, or checked before anything is written to it or believed of it.

mod entry;
mod temporary;

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, RenameFlags, StatVfs, fstatvfs, linkat, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

pub use entry::Entry;

/// Mode bits of a directory: its entries are removed and renamed only by their owners; its group
/// may write, all users may write.
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// An open directory.
#[derive(Debug)]
pub struct OutputDirectory {
    handle: File,
    path: PathBuf,
    /// True if other users can remove and replace files of this user.
    is_exposed: bool,
    /// Owner of this user's files where the file system does not keep the owner, such as NFS
    /// with root_squash, or FAT.
    mapped_owner: OnceLock<u32>,
    warnings: Mutex<Vec<String>>,
}

impl OutputDirectory {
    /// Opens the directory at `path`, to which links may lead.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Not O_PATH, which cannot be synced.
        Self::open_as(path, OFlags::RDONLY)
    }

    /// Opens a directory whose names cannot be made durable.
    #[cfg(test)]
    pub fn open_without_sync(path: &Path) -> io::Result<Self> {
        Self::open_as(path, OFlags::PATH)
    }

    fn open_as(path: &Path, access: OFlags) -> io::Result<Self> {
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let writers = writers(&handle.metadata()?);
        let directory = Self {
            handle,
            path: path.to_owned(),
            is_exposed: writers.is_some(),
            mapped_owner: OnceLock::new(),
            warnings: Mutex::default(),
        };
        if let Some(writers) = writers {
            directory.warn(format!(
                "{}: {writers} can remove and replace the files in it, since it has no sticky bit; \
                 use a directory of your own, or `chmod +t`",
                path.display()
            ));
        }
        Ok(directory)
    }

    /// Opens the directory that contains `file`.
    pub fn of_file(file: &Path) -> io::Result<Self> {
        match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => Self::open(parent),
            _ => Self::open(Path::new(".")),
        }
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a warning for the user, once.
    pub fn warn(&self, text: String) {
        let mut warnings = self.lock_warnings();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Returns the warnings recorded so far.
    pub fn warnings(&self) -> Vec<String> {
        self.lock_warnings().clone()
    }

    fn lock_warnings(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a file with mode 0600, for reading and writing.
    ///
    /// # Errors
    /// There is something of that name, also if it is a dangling link.
    pub fn create_new(&self, name: &OsStr) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?;
        let file = File::from(file);
        let owner = file.metadata()?.uid();
        if owner != geteuid().as_raw() {
            // The first file decides; all files have the same owner on such a file system.
            let _ = self.mapped_owner.set(owner);
        }
        Ok(file)
    }

    /// Renames `file`; with `replace`, an existing file of that name is replaced.
    pub fn rename(&self, file: &File, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        self.check_is(file, from)?;
        if replace {
            renameat(&self.handle, from, &self.handle, to)?;
        } else {
            self.rename_new(from, to)?;
        }
        self.check_is(file, to)
    }

    /// Returns an error if another user replaced `file`.
    fn check_is(&self, file: &File, name: &OsStr) -> io::Result<()> {
        if !self.is_exposed || self.is_name_of(name, file)? {
            return Ok(());
        }
        let name = self.path.join(name);
        let text = format!("{} was replaced by another user", name.display());
        Err(io::Error::other(text))
    }

    /// Returns true if `name` leads to the open `file`.
    pub fn is_name_of(&self, name: &OsStr, file: &File) -> io::Result<bool> {
        let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        let file = file.metadata()?;
        let found = self.metadata(name)?;
        Ok(found.is_some_and(|found| identity(&found) == identity(&file)))
    }

    /// Renames atomically, without replacing a file that appeared meanwhile.
    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let directory = &self.handle;
        match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            // Not all file systems support this, for example NFS; most have hard links.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            result => return Ok(result?),
        }
        match linkat(directory, from, directory, to, AtFlags::empty()) {
            Ok(()) => self.remove(from),
            Err(Errno::EXIST) => Err(io::ErrorKind::AlreadyExists.into()),
            // FAT has neither. An empty file reserves the name until it is replaced.
            Err(_) => {
                self.create_new(to)?;
                Ok(renameat(directory, from, directory, to)?)
            }
        }
    }

    /// Removes a name.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Writes the directory to the disk, so that its names are durable.
    pub fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// Calls `visit` with each name.
    pub fn for_each_name(&self, mut visit: impl FnMut(&OsStr)) -> io::Result<()> {
        for entry in Dir::read_from(&self.handle)? {
            visit(OsStr::from_bytes(entry?.file_name().to_bytes()));
        }
        Ok(())
    }

    /// Returns the size and the free space of the file system.
    pub fn space(&self) -> io::Result<StatVfs> {
        Ok(fstatvfs(&self.handle)?)
    }
}

/// Returns the users who can replace files of others in this directory, apart from its owner
/// and root.
fn writers(directory: &Metadata) -> Option<&'static str> {
    let mode = directory.mode();
    let is_of_another_group = directory.gid() != getegid().as_raw();
    match mode {
        _ if mode & STICKY != 0 => None,
        _ if mode & ALL_WRITE != 0 => Some("all users"),
        _ if mode & GROUP_WRITES != 0 && is_of_another_group => Some("users of its group"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
