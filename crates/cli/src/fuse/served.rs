//! Common parts of all FUSE trees.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo, InitFlags, KernelConfig};

/// Maximum number of background requests of the kernel: read-ahead.
const MAX_BACKGROUND: u16 = 64;
/// Maximum number of reported read errors, since a reader may scan a damaged file.
const MAX_REPORTED: usize = 20;

/// Callback that reports why something cannot be read.
pub(crate) type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Owner, age and error reporting of the files.
pub(crate) struct Served {
    pub(crate) owner: (u32, u32),
    pub(crate) time: SystemTime,
    pub(crate) tell: Tell,
    pub(crate) reported: AtomicUsize,
}

impl Served {
    /// The attributes of a directory or a file.
    pub(crate) fn attributes(
        &self,
        ino: INodeNo,
        kind: FileType,
        perm: u16,
        size: u64,
    ) -> FileAttr {
        FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: self.time,
            mtime: self.time,
            ctime: self.time,
            crtime: self.time,
            kind,
            perm,
            // A link count of one means that subdirectories are not counted.
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Reports the reason and returns the reader's error number.
    pub(crate) fn failed(&self, reason: &str) -> Errno {
        match self.reported.fetch_add(1, Ordering::Relaxed) {
            reported if reported < MAX_REPORTED => (self.tell)(reason),
            MAX_REPORTED => (self.tell)("further read errors are not reported"),
            // The counter must not overflow.
            _ => self.reported.store(MAX_REPORTED + 1, Ordering::Relaxed),
        }
        Errno::EIO
    }
}

/// Configures the connection.
pub(crate) fn configure(config: &mut KernelConfig) {
    // If the value is too large, the nearest possible one is used.
    let _ = config.set_max_background(MAX_BACKGROUND);
    let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
}
