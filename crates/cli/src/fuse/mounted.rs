//! A mount made by this process, or by its helper.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::fuse::error::MountError;
use crate::fuse::helper::{CHUNKED_READ_AHEAD_KIB, Helper};
use crate::fuse::mountpoint::{Access, Mountpoint, Unmounted};

/// The directory to mount, and the process that does it.
pub enum Place {
    /// This process.
    Directory(PathBuf),
    /// The helper of a process that has confined itself.
    Helper(Helper),
}

/// A mounted directory.
pub enum Mounted {
    /// Mounted by this process.
    Own(Mountpoint),
    /// Mounted by the helper.
    ByHelper(Helper),
}

impl Mounted {
    /// Mounts a directory, and returns the FUSE device file. A helper mounts only read-only and
    /// for one user.
    pub(crate) fn new(
        place: Place,
        name: &str,
        access: Access,
    ) -> Result<(Self, OwnedFd), MountError> {
        match place {
            Place::Directory(directory) => {
                let (mountpoint, file) = Mountpoint::new(&directory, name, access)?;
                Ok((Self::Own(mountpoint), file))
            }
            Place::Helper(mut helper) => {
                let file = helper.mount()?;
                Ok((Self::ByHelper(helper), file))
            }
        }
    }

    /// Records what the mount is, and sets the read-ahead of a dump in chunks. The mount must
    /// already be served.
    pub(crate) fn look(&mut self, is_chunked: bool) -> io::Result<()> {
        match self {
            Self::Own(mountpoint) => {
                mountpoint.look()?;
                if is_chunked {
                    mountpoint.set_read_ahead(CHUNKED_READ_AHEAD_KIB);
                }
                Ok(())
            }
            Self::ByHelper(helper) => helper.look(is_chunked),
        }
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        match self {
            Self::Own(mountpoint) => mountpoint.directory(),
            Self::ByHelper(helper) => helper.directory(),
        }
    }

    /// Unmounts. A mount in use is detached at once, and ends with its last user.
    ///
    /// # Errors
    ///
    /// The directory is still mounted.
    pub fn unmount(&self) -> Result<Unmounted, MountError> {
        match self {
            Self::Own(mountpoint) => mountpoint.unmount(),
            Self::ByHelper(helper) => helper.unmount(),
        }
    }
}
