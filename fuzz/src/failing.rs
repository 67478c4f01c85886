//! A file on a disk that fails: some of its sectors cannot be read, or some reads fail once.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bigiron_format::ReadAt;

use crate::choices::Choices;

/// Bytes of a sector.
pub const SECTOR: u64 = 4096;
/// Error of a bad sector.
const EIO: i32 = 5;

/// What fails.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Sectors that cannot be read.
    pub sectors: Vec<Range<u64>>,
    /// Each read whose number is a multiple of it fails, at any place; 0 for none.
    pub every: u64,
}

impl Faults {
    /// Chooses up to 4 runs of sectors of a file of `size` bytes, or reads that fail.
    pub fn choose(choices: &mut Choices<'_>, size: u64) -> Self {
        let end = usize::try_from(size.div_ceil(SECTOR)).unwrap_or(usize::MAX);
        let count = choices.byte() % 5;
        let sectors = (0..count).map(|_| {
            let first = choices.below(end) as u64;
            first..first + 1 + u64::from(choices.byte() % 4)
        });
        let sectors = sectors.collect();
        let every = match choices.byte() {
            every @ 1..32 => u64::from(every),
            _ => 0,
        };
        Self { sectors, every }
    }

    /// Returns true if a byte of the range is in a bad sector.
    pub fn hit(&self, bytes: &Range<u64>) -> bool {
        let hit =
            |bad: &Range<u64>| bad.start * SECTOR < bytes.end && bytes.start < bad.end * SECTOR;
        self.sectors.iter().any(hit)
    }
}

/// A file with faults.
pub struct Failing<R> {
    file: R,
    faults: Faults,
    calls: AtomicU64,
}

impl<R> Failing<R> {
    /// Lets reads of a file fail.
    pub fn new(file: R, faults: Faults) -> Self {
        Self {
            file,
            faults,
            calls: AtomicU64::new(0),
        }
    }
}

impl<R: ReadAt> ReadAt for Failing<R> {
    /// As the kernel's: bytes before a bad sector are read, and the sector itself is an error.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let call = 1 + self.calls.fetch_add(1, Relaxed);
        let failed = || io::Error::from_raw_os_error(EIO);
        if self.faults.every != 0 && call.is_multiple_of(self.faults.every) {
            return Err(failed());
        }
        let end = offset.saturating_add(buf.len() as u64);
        let bad = self.faults.sectors.iter();
        let bad = bad.filter(|bad| bad.start * SECTOR < end && offset < bad.end * SECTOR);
        match bad.map(|bad| bad.start * SECTOR).min() {
            None => self.file.read_at(offset, buf),
            Some(first) if first <= offset => Err(failed()),
            Some(first) => self
                .file
                .read_at(offset, &mut buf[..(first - offset) as usize]),
        }
    }

    fn size(&self) -> u64 {
        self.file.size()
    }
}
