//! Mapped windows of a file.

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A read-only mapping of a part of a file.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is read-only and belongs to this value alone.
unsafe impl Send for Mapping {}
// SAFETY: the mapping does not change until drop, and shared borrows only read it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes at `offset`, which must be a multiple of the page size.
    pub fn new(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a null hint lets the kernel choose a free range, so nothing
        // that is in use is replaced.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                flags,
                file,
                offset,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// The bytes of the file. If another process changes the file, other bytes are seen, as if
    /// it were read later.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is a live mapping of `len` readable bytes until drop,
        // and a shared borrow of `self` keeps it alive.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and `len` are those of a mapping that only this
        // value knows, and no slice of it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
