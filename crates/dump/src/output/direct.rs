//! Writes past the page cache, at the speed of the disk and without its memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
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
    /// Size in bytes of a page of the page cache. A direct write covers whole pages: if a page of it is dirty, the kernel
    /// reports an I/O error, since it cannot drop the page (dio_warn_stale_pagecache, mm/filemap.c).
    page_size: usize,
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
            page_size: rustix::param::page_size().max(BLOCK),
            refused: AtomicBool::new(false),
        })
    }

    /// True if bytes are written past the page cache where they can be.
    pub fn is_used(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    /// Writes the whole pages that `bytes` cover at `offset` of the file. Returns their range in `bytes`; the others, or
    /// all if the range is empty, must go through the page cache.
    pub fn write_pages_at(&self, bytes: &[u8], offset: u64) -> io::Result<Range<usize>> {
        let pages = self.whole_pages(bytes, offset);
        if pages.is_empty() || !self.is_used() {
            return Ok(0..0);
        }
        let start = offset + pages.start as u64;
        match self.file.write_all_at(&bytes[pages.clone()], start) {
            Ok(()) => Ok(pages),
            // Blocks larger than ours, or a file system that allows it only when opening.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                self.refused.store(true, Ordering::Relaxed);
                Ok(0..0)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the range in `bytes` of the whole pages at `offset`. Empty if they are few, or not aligned in memory.
    fn whole_pages(&self, bytes: &[u8], offset: u64) -> Range<usize> {
        let page = self.page_size as u64;
        let before = offset.wrapping_neg() & (page - 1);
        let behind = offset.wrapping_add(bytes.len() as u64) & (page - 1);
        let (start, end) = (before as usize, bytes.len().saturating_sub(behind as usize));
        let is_long = end >= start.saturating_add(MIN_BYTES);
        if is_long && bytes[start..].as_ptr().align_offset(BLOCK) == 0 {
            start..end
        } else {
            0..0
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::io::Read;

    use super::*;
    use bigiron_kernel::AlignedBuffer;

    /// A file for direct writes whose page cache is taken to have pages of this size, and a buffer of four times the
    /// least length. `None` where temporary files have no direct writes.
    fn opened(page_size: usize) -> Option<(File, DirectFile, AlignedBuffer)> {
        // The usual directory of temporary files may be a file system without direct writes. The
        // sources are not there when the test was built elsewhere.
        let beside = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR"));
        let file = beside.or_else(|_| tempfile::tempfile()).unwrap();
        let mut direct = DirectFile::of(&file)?;
        direct.page_size = direct.page_size.max(page_size);
        let mut bytes = AlignedBuffer::new(4 * MIN_BYTES);
        bytes
            .iter_mut()
            .enumerate()
            .for_each(|(n, byte)| *byte = (n % 251) as u8);
        Some((file, direct, bytes))
    }

    #[test]
    fn long_aligned_writes_go_past_the_page_cache_and_all_bytes_arrive() {
        let Some((file, direct, bytes)) = opened(BLOCK) else {
            return;
        };
        let page = direct.page_size;
        let at = page as u64;
        let none = |bytes: &[u8], offset| {
            assert_eq!(direct.write_pages_at(bytes, offset).unwrap(), 0..0);
        };
        none(&bytes[1..], at);
        none(&bytes[1..MIN_BYTES + 1], at);
        none(&bytes, at + 512);
        none(&bytes[..MIN_BYTES - BLOCK], at);
        none(&[], at);
        none(&bytes, u64::MAX);
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert_eq!(direct.write_pages_at(&bytes, at).unwrap(), 0..bytes.len());
        let mut read = Vec::new();
        (&file).read_to_end(&mut read).unwrap();
        assert!(read[..page].iter().all(|byte| *byte == 0));
        assert_eq!(&read[page..], &bytes[..]);
    }

    #[test]
    fn page_of_the_page_cache_that_is_covered_in_part_is_not_written_directly() {
        let page = 64 << 10;
        let Some((file, direct, bytes)) = opened(page) else {
            return;
        };
        let offset = (page - BLOCK) as u64;
        let written = direct.write_pages_at(&bytes, offset).unwrap();
        assert_eq!(written, BLOCK..bytes.len() - page + BLOCK);
        let mut read = vec![0; written.len()];
        file.read_exact_at(&mut read, page as u64).unwrap();
        assert_eq!(read, bytes[written]);
        // No whole page of the file lies in these bytes.
        let rest = &bytes[..page + BLOCK];
        assert_eq!(
            direct
                .write_pages_at(rest, offset + 2 * BLOCK as u64)
                .unwrap(),
            0..0
        );
    }

    #[test]
    fn files_in_memory_are_left_to_the_page_cache() {
        if let Ok(file) = tempfile::tempfile_in("/dev/shm") {
            assert!(DirectFile::of(&file).is_none());
        }
    }
}
