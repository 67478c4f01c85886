//! Unpacks a flattened stream.

use std::io::{self, Read};

use super::record::Record;
use super::{HEADER_LEN, RECORD_HEADER_LEN, check_header};
use crate::error::FormatError;

/// Buffer size, and maximum length passed to the sink at once.
const BUFFER_LEN: usize = 1 << 20;

/// Statistics of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of records, without the end record.
    pub records: u64,
    /// Number of bytes in the records.
    pub bytes: u64,
    /// Size of the dump: the highest end of a record.
    pub size: u64,
    /// True if the end record was read. Otherwise the stream was truncated, and everything
    /// before was passed on.
    pub complete: bool,
}

/// Reads a flattened stream and passes the data to `sink` with its offset in the dump, in
/// stream order: later data overwrites earlier data. At most 1 MiB is passed at once. Reading
/// stops with the buffer that holds the end record.
pub fn unpack(
    reader: &mut impl Read,
    mut sink: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> Result<Summary, FormatError> {
    let mut input = Input::new(reader);
    input.want(HEADER_LEN)?;
    check_header(input.held())?;
    input.take(HEADER_LEN);

    let mut summary = Summary::default();
    loop {
        let at = input.position;
        if !input.want(RECORD_HEADER_LEN)? {
            return Ok(summary);
        }
        let Some(header) = input.held().first_chunk() else {
            return Ok(summary);
        };
        let record = Record::parse(header, at)?;
        input.take(RECORD_HEADER_LEN);
        let Record::Data { mut offset, size } = record else {
            summary.complete = true;
            return Ok(summary);
        };
        summary.records += 1;
        let mut left = size;
        while left > 0 {
            if !input.want(1)? {
                return Ok(summary);
            }
            let held = input.held();
            let piece =
                &held[..usize::try_from(left).map_or(held.len(), |left| left.min(held.len()))];
            sink(offset, piece).map_err(|error| FormatError::Io {
                what: "a flattened record",
                offset: at,
                cause: io::Error::new(error.kind(), format!("its data cannot be written: {error}")),
            })?;
            let count = piece.len();
            offset += count as u64;
            left -= count as u64;
            summary.bytes += count as u64;
            summary.size = summary.size.max(offset);
            input.take(count);
        }
    }
}

/// A stream with a buffer of unused bytes.
struct Input<'a, R> {
    reader: &'a mut R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `start` in the stream.
    position: u64,
}

impl<'a, R: Read> Input<'a, R> {
    fn new(reader: &'a mut R) -> Self {
        Self {
            reader,
            buffer: vec![0; BUFFER_LEN],
            start: 0,
            end: 0,
            position: 0,
        }
    }

    fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn take(&mut self, count: usize) {
        self.start += count;
        self.position += count as u64;
    }

    /// Fills the buffer to `count` bytes, at most its capacity; returns false at the end of the
    /// stream.
    fn want(&mut self, count: usize) -> Result<bool, FormatError> {
        while self.end - self.start < count {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    return Err(FormatError::Io {
                        what: "the flattened stream",
                        offset: self.position + self.held().len() as u64,
                        cause,
                    });
                }
            }
        }
        Ok(true)
    }
}
