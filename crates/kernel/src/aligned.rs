//! Buffers whose bytes begin at a page.
//!
//! Direct I/O requires them, and the kernel's copies to and from them are faster: on AMD's
//! processors `rep movsb` takes four times as long if the target lies a few bytes behind the
//! source within their pages (glibc bug 30994), as buffers of malloc do for a file's page.

use std::ops::{Deref, DerefMut};

/// Alignment in bytes, in memory and in files: a page of the page cache, and a block of most file
/// systems and disks.
pub const BLOCK: usize = 4096;

/// A fixed number of bytes that begin at a multiple of [`BLOCK`] in memory. Zero at first, and without memory until
/// they are written to.
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// Creates `len` bytes of zeros.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + BLOCK];
        // The vector is never resized, so its bytes stay where they are.
        let start = bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        Self { bytes, start, len }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_length_begin_at_a_block() {
        for len in [1, BLOCK - 1, BLOCK, 3 * BLOCK + 5] {
            let mut buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.as_ptr() as usize % BLOCK, 0);
            buffer.fill(1);
            assert_eq!(buffer.len(), len);
        }
    }
}
