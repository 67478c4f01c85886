//! Errors of mounting.

use std::io;
use std::path::PathBuf;

/// A directory cannot be mounted, served or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE, or it is not available here.
    #[error(
        "/dev/fuse: {cause}: FUSE in the kernel is required (`modprobe fuse`; in a container, \
         add the device)"
    )]
    NoFuse {
        /// The I/O error.
        cause: io::Error,
    },
    /// The directory cannot be used.
    #[error("{}: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The kernel or fusermount3 refuses to mount it.
    #[error("{}: cannot mount: {reason}", path.display())]
    Refused {
        /// The directory.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The directory is still mounted.
    #[error("{}: cannot unmount: {reason}; run `umount {}`", path.display(), path.display())]
    Stays {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The helper process could not mount or unmount.
    #[error("{text}")]
    Helper {
        /// The helper's error, which names the directory.
        text: String,
    },
    /// Requests of the kernel cannot be answered.
    #[error("{}: cannot serve: {cause}", path.display())]
    Serve {
        /// The directory.
        path: PathBuf,
        /// The I/O error.
        cause: io::Error,
    },
}
