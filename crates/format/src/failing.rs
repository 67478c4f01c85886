//! A file with ranges that cannot be read, for tests.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bytes::ReadAt;

/// EIO.
const EIO: i32 = 5;

/// A file of which reads fail in given ranges.
pub struct Failing<R> {
    file: R,
    bad: Vec<Range<u64>>,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl<R> Failing<R> {
    /// Lets reads of `file` fail in the ranges `bad`.
    pub fn new(file: R, bad: Vec<Range<u64>>) -> Self {
        Self {
            file,
            bad,
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Number of reads, failed or not.
    pub fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    /// Number of bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl<R: ReadAt> ReadAt for Failing<R> {
    /// As the kernel's: bytes before a bad sector are read, and the sector itself is an error.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.reads.fetch_add(1, Relaxed);
        let end = offset.saturating_add(buf.len() as u64);
        let bad = self.bad.iter();
        let bad = bad.filter(|bad| bad.start < end && offset < bad.end);
        let len = match bad.map(|bad| bad.start).min() {
            Some(first) if first <= offset => return Err(io::Error::from_raw_os_error(EIO)),
            Some(first) => (first - offset) as usize,
            None => buf.len(),
        };
        let read = self.file.read_at(offset, &mut buf[..len])?;
        self.bytes.fetch_add(read as u64, Relaxed);
        Ok(read)
    }

    fn size(&self) -> u64 {
        self.file.size()
    }
}
