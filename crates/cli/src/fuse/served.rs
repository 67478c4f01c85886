//! What all trees have that are served by FUSE.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo, InitFlags, KernelConfig};

/// Reads that the kernel may have waiting in the background: read-ahead.
const MAX_BACKGROUND: u16 = 64;
/// What cannot be read is told this often, since a reader may go through all of a
/// damaged file.
const MAX_TOLD: usize = 20;

/// Is told why something cannot be read.
pub(crate) type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Whose files they are, how old, and who is told what goes wrong.
pub(crate) struct Served {
    pub(crate) owner: (u32, u32),
    pub(crate) time: SystemTime,
    pub(crate) tell: Tell,
    pub(crate) told: AtomicUsize,
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
            // A directory with one link says that it does not count what is in it.
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Tells why, and gives what the reader sees.
    pub(crate) fn failed(&self, reason: &str) -> Errno {
        match self.told.fetch_add(1, Ordering::Relaxed) {
            told if told < MAX_TOLD => (self.tell)(reason),
            MAX_TOLD => (self.tell)("what else cannot be read is not told"),
            // The count must not turn over.
            _ => self.told.store(MAX_TOLD + 1, Ordering::Relaxed),
        }
        Errno::EIO
    }
}

/// What is asked of the kernel at first.
pub(crate) fn configure(config: &mut KernelConfig) {
    // Each gives the nearest that the kernel has where that is less.
    let _ = config.set_max_background(MAX_BACKGROUND);
    let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
}
