//! A flattened file, read as the dump it contains.

use std::collections::BTreeMap;
use std::io;

use super::record::Record;
use super::{HEADER_LEN, RECORD_HEADER_LEN, check_header};
use crate::bytes::ReadAt;
use crate::error::FormatError;

/// The header between the data of two adjacent records.
const GAP: u64 = RECORD_HEADER_LEN as u64;

/// Approximate memory of an extent in a half-filled B-tree.
const RANGE_BYTES: usize = 96;

/// Maximum memory of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the index, in bytes.
    pub index_bytes: usize,
}

impl Default for Limits {
    /// 64 MiB: sufficient for a file of several terabytes as makedumpfile writes it, whose
    /// records are mostly adjacent and of equal size.
    fn default() -> Self {
        Self {
            index_bytes: 64 << 20,
        }
    }
}

/// A flattened file, seen as the dump that it contains. Bytes without a record read as zeros.
#[derive(Debug)]
pub struct FlattenedFile<R> {
    file: R,
    /// By offset in the dump, without overlaps.
    ranges: BTreeMap<u64, RecordRange>,
    records: u64,
    size: u64,
    complete: bool,
}

/// A range of the dump whose records are adjacent and equally long, both in the file and in the
/// dump; only the last may be shorter.
#[derive(Clone, Copy, Debug)]
struct RecordRange {
    /// End offset in the dump.
    end: u64,
    /// Offset of the first record in the dump; later records may have replaced the start of the
    /// range.
    origin: u64,
    /// Offset of the first record's data in the file.
    data: u64,
    /// Length of each record.
    stride: u64,
}

impl RecordRange {
    /// Returns the file offset of the byte at `offset` of the dump, and the number of bytes
    /// from there to the next header.
    fn locate(&self, offset: u64) -> (u64, u64) {
        let (index, inside) = (
            (offset - self.origin) / self.stride,
            (offset - self.origin) % self.stride,
        );
        let run = (self.stride - inside).min(self.end - offset);
        (self.data + index * (self.stride + GAP) + inside, run)
    }

    /// Returns true if a record with its data at `data` continues this range.
    fn continues(&self, offset: u64, size: u64, data: u64) -> bool {
        let len = self.end - self.origin;
        offset == self.end
            && size <= self.stride
            && len.is_multiple_of(self.stride)
            && data == self.data + len / self.stride * (self.stride + GAP)
    }
}

impl<R: ReadAt> FlattenedFile<R> {
    /// Reads all record headers of `file`.
    ///
    /// A truncated file is indexed as far as it goes; see [`is_complete`](Self::is_complete).
    pub fn open(file: R, limits: Limits) -> Result<Self, FormatError> {
        let mut front = vec![0; file.size().min(HEADER_LEN as u64) as usize];
        file.read_exact_at("the header of the flattened file", 0, &mut front)?;
        check_header(&front)?;
        let mut index = Self {
            file,
            ranges: BTreeMap::new(),
            records: 0,
            size: 0,
            complete: false,
        };
        index.scan(limits.index_bytes / RANGE_BYTES)?;
        Ok(index)
    }

    /// Returns true if the end record exists. Otherwise the file is truncated, and what is
    /// missing reads as zeros.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Number of records, without the end record.
    pub fn record_count(&self) -> u64 {
        self.records
    }

    /// The flattened file itself.
    pub fn inner(&self) -> &R {
        &self.file
    }

    fn scan(&mut self, max_ranges: usize) -> Result<(), FormatError> {
        let file_size = self.file.size();
        let mut headers = Headers::default();
        let mut at = HEADER_LEN as u64;
        // The range that received the last record.
        let mut latest = None;
        while let Some(header) = headers.read(&self.file, at, file_size)? {
            let Record::Data { offset, size } = Record::parse(&header, at)? else {
                self.complete = true;
                break;
            };
            self.records += 1;
            let data = at + GAP;
            let present = size.min(file_size.saturating_sub(data));
            if present > 0 {
                latest = Some(self.insert(offset, present, data, latest));
                self.size = self.size.max(offset + present);
            }
            if self.ranges.len() > max_ranges {
                return Err(FormatError::unexpected(
                    "flattened records",
                    at,
                    format!("at most {max_ranges} separate ranges of the dump"),
                    "more, too many for an index in memory: unpack the file first",
                ));
            }
            if present < size {
                break;
            }
            at = data + size;
        }
        Ok(())
    }

    /// Inserts a record and returns the range that received it.
    fn insert(&mut self, offset: u64, size: u64, data: u64, latest: Option<u64>) -> u64 {
        let end = offset + size;
        self.clear(offset, end);
        if let Some(start) = latest
            && let Some(range) = self.ranges.get_mut(&start)
            && range.continues(offset, size, data)
        {
            range.end = end;
            return start;
        }
        let range = RecordRange {
            end,
            origin: offset,
            data,
            stride: size,
        };
        self.ranges.insert(offset, range);
        offset
    }

    /// Removes `start..end` from earlier ranges. Each is removed once and split at most in two,
    /// so that all records together cost no more than sorting them.
    fn clear(&mut self, start: u64, end: u64) {
        if let Some((_, before)) = self.ranges.range_mut(..start).next_back()
            && before.end > start
        {
            let behind = *before;
            before.end = start;
            if behind.end > end {
                self.ranges.insert(end, behind);
            }
        }
        while let Some((&covered, &range)) = self.ranges.range(start..end).next() {
            self.ranges.remove(&covered);
            if range.end > end {
                self.ranges.insert(end, range);
            }
        }
    }
}

impl<R: ReadAt> ReadAt for FlattenedFile<R> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let wanted = self.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let rest = &mut buf[done..wanted];
            match self.ranges.range(..=at).next_back() {
                Some((_, range)) if at < range.end => {
                    let (data, run) = range.locate(at);
                    let len = run.min(rest.len() as u64) as usize;
                    match self.file.read_at(data, &mut rest[..len]) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(count) => done += count,
                        Err(_) if done > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                _ => {
                    let next = self.ranges.range(at..).next();
                    let hole = next.map_or(u64::MAX, |(&start, _)| start - at);
                    let len = hole.min(rest.len() as u64) as usize;
                    rest[..len].fill(0);
                    done += len;
                }
            }
        }
        Ok(done)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Reads record headers: many at once if records are short, and little more than the headers if
/// they are long.
#[derive(Default)]
struct Headers {
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    start: u64,
    /// Offset of the last header.
    last: u64,
}

impl Headers {
    const AHEAD: usize = 64 << 10;
    const SHORT_RECORD: u64 = 4 << 10;

    /// Reads the header at `at`; returns `None` if the file ends first.
    fn read(
        &mut self,
        file: &impl ReadAt,
        at: u64,
        file_size: u64,
    ) -> Result<Option<[u8; RECORD_HEADER_LEN]>, FormatError> {
        if file_size.saturating_sub(at) < GAP {
            return Ok(None);
        }
        if let Some(header) = self.held(at) {
            return Ok(Some(header));
        }
        let short = at - self.last <= Self::SHORT_RECORD + GAP;
        let len = if short {
            Self::AHEAD
        } else {
            RECORD_HEADER_LEN
        };
        let len = (file_size - at).min(len as u64) as usize;
        self.buffer.resize(len, 0);
        file.read_exact_at("the header of a flattened record", at, &mut self.buffer)?;
        self.start = at;
        Ok(self.held(at))
    }

    fn held(&mut self, at: u64) -> Option<[u8; RECORD_HEADER_LEN]> {
        let skip = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let header = self.buffer.get(skip..)?.first_chunk()?;
        self.last = at;
        Some(*header)
    }
}
