//! Taking a flattened stream apart as it comes.

use std::io::{self, Read};

use super::record::Record;
use super::{HEADER_LEN, RECORD_HEADER_LEN, check_header};
use crate::error::FormatError;

/// The most that is held in memory, and the longest piece.
const BUFFER_LEN: usize = 1 << 20;

/// What a stream held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many records came, the end not counted.
    pub records: u64,
    /// How many bytes they brought.
    pub bytes: u64,
    /// The size of the dump: the highest end of a record.
    pub size: u64,
    /// Whether the end record came. Otherwise the stream was cut, and all that
    /// did come has been handed over.
    pub complete: bool,
}

/// Reads a flattened stream and hands each piece of the dump to `sink` with
/// its offset, in the order of the stream: a later piece overwrites an earlier
/// one. Pieces are at most 1 MiB long. Reading goes no further than the buffer
/// that holds the end record.
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
                source: io::Error::new(error.kind(), format!("its data found no taker: {error}")),
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

/// A stream with the bytes that have been read from it but not used.
struct Input<'a, R> {
    reader: &'a mut R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where `start` is in the stream.
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

    /// Reads until `count` bytes are held, at most a buffer; false at the end
    /// of the stream.
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
                Err(source) => {
                    return Err(FormatError::Io {
                        what: "the flattened stream",
                        offset: self.position + self.held().len() as u64,
                        source,
                    });
                }
            }
        }
        Ok(true)
    }
}
