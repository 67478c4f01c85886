//! Reads a file on a failing disk: everything around the sectors that cannot be read.

use std::ops::Range;

use crate::bytes::ReadAt;
use crate::error::FormatError;

/// Smallest unit of a read, in bytes: the sector of most disks. A device with larger sectors fails
/// once for each part of one.
const SECTOR: u64 = 512;
/// Failed reads of one size; beyond, the next failed reads are twice as large. A failed read takes
/// a disk seconds.
const FAILURES_PER_SIZE: u64 = 1024;
/// Largest unit, in bytes.
const MAX_UNIT: u64 = 1 << 20;
/// Maximum number of ranges stored; the last one then reaches over all that follow.
const MAX_RANGES: usize = 1 << 16;
/// Ranges named in a message.
const MAX_NAMED: usize = 8;

/// Ranges of a file that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// In ascending order.
    ranges: Vec<Range<u64>>,
    /// Bytes that could not be read.
    bytes: u64,
    /// The system's error of the first one.
    cause: String,
}

impl Unreadable {
    /// Returns true if everything was read.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that could not be read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a range.
    fn add(&mut self, offset: u64, len: u64, cause: &std::io::Error) {
        if self.is_empty() {
            self.cause = cause.to_string();
        }
        self.bytes += len;
        self.push(offset..offset.saturating_add(len));
    }

    /// Adds a range that does not begin before the others.
    fn push(&mut self, range: Range<u64>) {
        let is_full = self.ranges.len() == MAX_RANGES;
        match self.ranges.last_mut() {
            Some(last) if is_full || range.start <= last.end => last.end = range.end.max(last.end),
            _ => self.ranges.push(range),
        }
    }

    /// Adds the ranges of another part of the same file.
    pub fn merge(&mut self, other: Self) {
        if self.is_empty() {
            self.cause = other.cause;
        }
        self.bytes += other.bytes;
        let mut all = std::mem::take(&mut self.ranges);
        all.extend(other.ranges);
        all.sort_unstable_by_key(|range| range.start);
        all.into_iter().for_each(|range| self.push(range));
    }

    /// Returns the same ranges of a copy, in which offset `from` of the file is at `to`.
    pub fn moved(&self, from: u64, to: u64) -> Self {
        let moved = |at: u64| at.saturating_sub(from).saturating_add(to);
        let ranges = self.ranges.iter();
        Self {
            ranges: ranges
                .map(|range| moved(range.start)..moved(range.end))
                .collect(),
            ..self.clone()
        }
    }

    /// Returns true if a byte of `range` could not be read.
    pub fn hits(&self, range: &Range<u64>) -> bool {
        let first = self.ranges.partition_point(|bad| bad.end <= range.start);
        let bad = self.ranges.get(first);
        bad.is_some_and(|bad| bad.start < range.end)
    }

    /// Returns the first range that ends behind `offset`.
    pub fn next(&self, offset: u64) -> Option<&Range<u64>> {
        let first = self.ranges.partition_point(|bad| bad.end <= offset);
        self.ranges.get(first)
    }

    /// The system's error of the first range.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// Returns the extent from the first to the last byte of `range` that could not be read.
    pub fn within(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let first = self.ranges.partition_point(|bad| bad.end <= range.start);
        let behind = self.ranges.partition_point(|bad| bad.start < range.end);
        let hit = self.ranges.get(first..behind)?;
        let (first, last) = (hit.first()?, hit.last()?);
        Some(first.start.max(range.start)..last.end.min(range.end))
    }

    /// Describes the ranges, for a message: "4096 bytes at offset 0x1000 cannot be read (…)".
    pub fn describe(&self) -> String {
        let named = || self.ranges.iter().take(MAX_NAMED);
        let ranges: Vec<String> = named()
            .map(|bad| format!("{} bytes at offset {:#x}", bad.end - bad.start, bad.start))
            .collect();
        let named: u64 = named().map(|bad| bad.end - bad.start).sum();
        let more = match self.bytes.saturating_sub(named) {
            0 => String::new(),
            more => format!(" and {more} more bytes"),
        };
        format!(
            "{}{more} cannot be read ({})",
            ranges.join(", "),
            self.cause
        )
    }
}

/// Reads around sectors that cannot be read.
#[derive(Debug)]
pub struct Salvager {
    unit: u64,
    /// Failed reads of this size.
    failures: u64,
    unreadable: Unreadable,
}

impl Default for Salvager {
    fn default() -> Self {
        Self {
            unit: SECTOR,
            failures: 0,
            unreadable: Unreadable::default(),
        }
    }
}

impl Salvager {
    /// The ranges that could not be read so far.
    pub fn unreadable(&self) -> &Unreadable {
        &self.unreadable
    }

    /// Returns the ranges that could not be read since the last call.
    pub fn take(&mut self) -> Unreadable {
        std::mem::take(&mut self.unreadable)
    }

    /// Fills `buf` from `offset`, and with zeros where a read fails. Returns true if all of it
    /// was read.
    ///
    /// # Errors
    /// The file ends before the last byte.
    pub fn read(
        &mut self,
        file: &(impl ReadAt + ?Sized),
        what: &'static str,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<bool, FormatError> {
        match file.read_exact_at(what, offset, buf) {
            Err(FormatError::Io { .. }) => {}
            result => return result.map(|()| true),
        }
        let end = offset.saturating_add(buf.len() as u64);
        let mut at = offset;
        // Reads shrink towards a bad sector, and grow behind it.
        let mut len = buf.len() as u64 / 2;
        while at < end {
            let next = self.end_of_read(at, len).min(end);
            let start = (at - offset) as usize;
            let bytes = &mut buf[start..(next - offset) as usize];
            match file.read_exact_at(what, at, bytes) {
                Ok(()) => {
                    at = next;
                    len = len.max(self.unit).saturating_mul(2);
                }
                Err(FormatError::Io { .. }) if next - at > self.unit => len = (next - at) / 2,
                Err(FormatError::Io { cause, .. }) => {
                    bytes.fill(0);
                    self.unreadable.add(at, next - at, &cause);
                    self.count_failure();
                    at = next;
                    len = self.unit;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Returns the end of a read of about `len` bytes at `at`, which is at the end of a unit.
    fn end_of_read(&self, at: u64, len: u64) -> u64 {
        let end = at.saturating_add(len);
        let aligned = end - end % self.unit;
        match aligned > at {
            true => aligned,
            false => (at - at % self.unit).saturating_add(self.unit),
        }
    }

    fn count_failure(&mut self) {
        self.failures += 1;
        if self.failures == FAILURES_PER_SIZE {
            (self.failures, self.unit) = (0, (self.unit * 2).min(MAX_UNIT));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;
    use crate::failing::Failing;

    proptest! {
        #[test]
        fn everything_outside_bad_sectors_is_read(
            size in 1_usize..20_000,
            start in 0_usize..20_000,
            bad in proptest::collection::vec((0_u64..40, 1_u64..4), 0..6),
        ) {
            let start = start.min(size - 1);
            let bytes: Vec<u8> = (0..size).map(|n| (n % 255) as u8 + 1).collect();
            let bad: Vec<_> = bad.iter().map(|(at, n)| at * SECTOR..(at + n) * SECTOR).collect();
            let file = Failing::new(bytes.clone(), bad.clone());
            let mut salvager = Salvager::default();
            let mut found = vec![0xff; size - start];
            let whole = salvager.read(&file, "it", start as u64, &mut found).unwrap();
            let lost = Cell::new(0);
            for (at, byte) in found.iter().enumerate() {
                let at = start + at;
                let is_bad = bad.iter().any(|bad| bad.contains(&(at as u64)));
                lost.set(lost.get() + u64::from(is_bad));
                let expected = if is_bad { 0 } else { bytes[at] };
                prop_assert_eq!(*byte, expected, "at {}", at);
            }
            prop_assert_eq!(salvager.unreadable().bytes(), lost.get());
            prop_assert_eq!(whole, lost.get() == 0);
        }
    }

    #[test]
    fn failed_reads_are_few_on_a_disk_that_cannot_be_read_at_all() {
        let size = 256 << 20;
        let all = 0..size as u64;
        let file = Failing::new(vec![0_u8; size], vec![all]);
        let mut salvager = Salvager::default();
        let mut buf = vec![0; 1 << 20];
        for at in (0..size as u64).step_by(1 << 20) {
            assert!(!salvager.read(&file, "it", at, &mut buf).unwrap());
        }
        assert_eq!(salvager.unreadable().bytes(), size as u64);
        assert!(file.reads() < 20_000, "{}", file.reads());
        let text = salvager.unreadable().describe();
        assert!(
            text.starts_with("268435456 bytes at offset 0x0 cannot be read ("),
            "{text}"
        );
    }

    #[test]
    fn file_that_ends_too_early_is_an_error() {
        let first = 0..512;
        let file = Failing::new(vec![0_u8; 600], vec![first]);
        let mut buf = [0; 1024];
        let error = Salvager::default().read(&file, "it", 0, &mut buf);
        assert!(
            matches!(error, Err(FormatError::Truncated { .. })),
            "{error:?}"
        );
    }
}
