//! Entries of a directory, and the check of their owner and type.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{ALL_WRITE, OutputDirectory};

/// Mode bits that permit other users to read, write or execute a file.
const OTHERS: u32 = 0o077;
/// Mode bits in messages.
const PERMISSIONS: u32 = 0o777;

/// An entry of a directory to which other users may write.
#[derive(Debug)]
pub enum Entry<T> {
    /// There is no such name.
    Absent,
    /// A regular file of root or of this user, and what was asked of it.
    Trusted(T),
    /// Anything else, and the reason why it is not used.
    Distrusted(String),
}

impl<T> Entry<T> {
    /// Returns the value of a trusted file.
    pub fn trusted(self) -> Option<T> {
        match self {
            Self::Trusted(value) => Some(value),
            Self::Absent | Self::Distrusted(_) => None,
        }
    }

    fn not_opened(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::Absent,
            error => Self::Distrusted(format!("cannot be opened: {error}")),
        }
    }
}

impl OutputDirectory {
    /// Returns the metadata of an entry, without following or opening it.
    pub(super) fn metadata(&self, name: &OsStr) -> io::Result<Option<Metadata>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.handle, name, flags, Mode::empty()) {
            Ok(entry) => File::from(entry).metadata().map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks an entry up without opening it.
    pub fn look(&self, name: &OsStr) -> Entry<Metadata> {
        match self.metadata(name) {
            Ok(None) => Entry::Absent,
            Ok(Some(metadata)) => match self.reason_to_distrust(&metadata) {
                None => Entry::Trusted(metadata),
                Some(reason) => Entry::Distrusted(reason),
            },
            Err(error) => Entry::Distrusted(format!("cannot be looked at: {error}")),
        }
    }

    /// Reads a text file of at most `max` bytes.
    pub fn read(&self, name: &OsStr, max: u64) -> Entry<String> {
        let file = match self.open_checked(name, OFlags::RDONLY) {
            Entry::Trusted((file, _)) => file,
            Entry::Absent => return Entry::Absent,
            Entry::Distrusted(reason) => return Entry::Distrusted(reason),
        };
        let mut bytes = Vec::new();
        match file.take(max.saturating_add(1)).read_to_end(&mut bytes) {
            Ok(read) if read as u64 > max => {
                Entry::Distrusted(format!("is longer than {max} bytes"))
            }
            Ok(_) => match String::from_utf8(bytes) {
                Ok(text) => Entry::Trusted(text),
                Err(_) => Entry::Distrusted("is not text".into()),
            },
            Err(error) => Entry::Distrusted(format!("cannot be read: {error}")),
        }
    }

    /// Opens a file for reading and writing that only this user can have opened before.
    pub(super) fn open_private(&self, name: &OsStr) -> Entry<File> {
        let (file, metadata) = match self.open_checked(name, OFlags::RDWR) {
            Entry::Trusted(opened) => opened,
            Entry::Absent => return Entry::Absent,
            Entry::Distrusted(reason) => return Entry::Distrusted(reason),
        };
        let mode = metadata.mode() & PERMISSIONS;
        Entry::Distrusted(if !self.is_own(metadata.uid()) {
            format!("belongs to user {}", metadata.uid())
        } else if mode & OTHERS != 0 {
            format!("can be opened by other users (mode {mode:03o})")
        } else if metadata.nlink() > 1 {
            "has another name, too (a hard link)".into()
        } else {
            return Entry::Trusted(file);
        })
    }

    /// Opens a regular file of root or of this user.
    fn open_checked(&self, name: &OsStr, access: OFlags) -> Entry<(File, Metadata)> {
        // Opening a device may have effects, so the type is checked before and after.
        match self.look(name) {
            Entry::Trusted(_) => {}
            Entry::Absent => return Entry::Absent,
            Entry::Distrusted(reason) => return Entry::Distrusted(reason),
        }
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.handle, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(error) => return Entry::not_opened(error),
        };
        match file.metadata() {
            Ok(metadata) => match self.reason_to_distrust(&metadata) {
                None => Entry::Trusted((file, metadata)),
                Some(reason) => Entry::Distrusted(reason),
            },
            Err(error) => Entry::Distrusted(format!("cannot be looked at: {error}")),
        }
    }

    /// Returns the reason why another user may have made or changed a file.
    fn reason_to_distrust(&self, metadata: &Metadata) -> Option<String> {
        let owner = metadata.uid();
        if !metadata.is_file() {
            Some("is not a regular file".into())
        } else if owner != 0 && !self.is_own(owner) {
            Some(format!("belongs to user {owner}"))
        } else if metadata.mode() & ALL_WRITE != 0 {
            Some("can be written by all users".into())
        } else {
            None
        }
    }

    fn is_own(&self, owner: u32) -> bool {
        owner == geteuid().as_raw() || self.mapped_owner.get() == Some(&owner)
    }
}
