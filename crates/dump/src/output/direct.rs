//! Writes past the page cache, at the speed of the disk and without its memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{OFlags, fstatfs};
use rustix::io::Errno;

use bigiron_kernel::BLOCK;

/// The file systems whose files are written directly (include/uapi/linux/magic.h): EXT4 and XFS.
/// Others have no disk of their own (tmpfs, NFS, FUSE), or copy and checksum the bytes anyway
/// (btrfs).
const FILE_SYSTEMS: [u32; 2] = [0xef53, 0x5846_5342];
/// Shorter writes are left to the page cache, which gathers them: the disk would handle each one
/// separately.
const MIN_BYTES: usize = 64 << 10;

/// A file, or a block device, opened for writes past the page cache.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    /// The kernel refused a write.
    refused: AtomicBool,
}

impl DirectFile {
    /// Opens `file` again. `None` where direct writes are of no use or not possible.
    pub fn of(file: &File) -> Option<Self> {
        let kind = file.metadata().ok()?.file_type();
        let is_on_disk = || {
            let found = fstatfs(file).ok()?.f_type;
            Some(FILE_SYSTEMS.contains(&u32::try_from(found).ok()?))
        };
        if !(kind.is_block_device() || kind.is_file() && is_on_disk()?) {
            return None;
        }
        // Another open file of the same inode: O_DIRECT would apply to all descriptors of one.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut options = OpenOptions::new();
        options.write(true);
        options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        Some(Self {
            file: options.open(path).ok()?,
            refused: AtomicBool::new(false),
        })
    }

    /// True if bytes are written past the page cache where they can be.
    pub fn is_used(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    /// Writes all of `bytes` at `offset` of the file. Returns false, and has written nothing
    /// that matters, if they must go through the page cache.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let is_aligned = offset.is_multiple_of(BLOCK as u64)
            && bytes.len().is_multiple_of(BLOCK)
            && bytes.as_ptr().align_offset(BLOCK) == 0;
        if !is_aligned || bytes.len() < MIN_BYTES || !self.is_used() {
            return Ok(false);
        }
        match self.file.write_all_at(bytes, offset) {
            Ok(()) => Ok(true),
            // Blocks larger than ours, or a file system that allows it only when opening.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                self.refused.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::io::Read;

    use super::*;
    use bigiron_kernel::AlignedBuffer;

    #[test]
    fn only_long_aligned_writes_go_past_the_page_cache_and_all_bytes_arrive() {
        // The usual directory of temporary files may be a file system without direct writes. The
        // sources are not there when the test was built elsewhere.
        let beside = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR"));
        let file = beside.or_else(|_| tempfile::tempfile()).unwrap();
        let Some(direct) = DirectFile::of(&file) else {
            return;
        };
        let mut bytes = AlignedBuffer::new(4 * MIN_BYTES);
        bytes
            .iter_mut()
            .enumerate()
            .for_each(|(n, byte)| *byte = (n % 251) as u8);
        let block = BLOCK as u64;
        assert!(!direct.write_all_at(&bytes[1..], block).unwrap());
        assert!(
            !direct
                .write_all_at(&bytes[1..MIN_BYTES + 1], block)
                .unwrap()
        );
        assert!(!direct.write_all_at(&bytes, block + 512).unwrap());
        assert!(
            !direct
                .write_all_at(&bytes[..MIN_BYTES - BLOCK], block)
                .unwrap()
        );
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert!(direct.write_all_at(&bytes, block).unwrap());
        let mut read = Vec::new();
        (&file).read_to_end(&mut read).unwrap();
        assert!(read[..BLOCK].iter().all(|byte| *byte == 0));
        assert_eq!(&read[BLOCK..], &bytes[..]);
    }

    #[test]
    fn files_in_memory_are_left_to_the_page_cache() {
        if let Ok(file) = tempfile::tempfile_in("/dev/shm") {
            assert!(DirectFile::of(&file).is_none());
        }
    }
}
