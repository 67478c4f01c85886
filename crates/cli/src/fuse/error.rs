//! Why nothing is mounted.

use std::io;
use std::path::PathBuf;

/// Why a directory cannot be mounted, served or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE, or shows it not here.
    #[error(
        "/dev/fuse: {source}: the kernel's FUSE is needed (`modprobe fuse`; in a container, give \
         it the device)"
    )]
    NoFuse {
        /// What the system said.
        source: io::Error,
    },
    /// The directory cannot be used.
    #[error("{}: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The kernel or fusermount3 does not mount it.
    #[error("{}: cannot mount: {reason}", path.display())]
    Refused {
        /// The directory.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// It stays mounted.
    #[error("{}: cannot unmount: {reason}; do it by `umount {}`", path.display(), path.display())]
    Stays {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// What the kernel asks cannot be answered.
    #[error("{}: cannot serve: {source}", path.display())]
    Serve {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
