//! Walks a vmdump from record to record, and across damage to the next valid one, for readers
//! without an index and for checks.

use super::chunk::ChunkHeader;
use super::header::VmdumpHeader;
use super::record::{self, FRAME_HEAD, MAX_RECORD, RECORD_HEAD, Tag};
use super::{Extent, seek_table};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// Bytes searched at once for the next valid record.
const SEARCH: usize = 1 << 20;
/// Bytes that identify a record: its skippable frame's head, tag and number.
const SIGNATURE: usize = FRAME_HEAD + RECORD_HEAD;

/// The next item in the file.
#[derive(Debug)]
pub enum WalkItem {
    /// A chunk: its compressed bytes follow its header.
    Chunk(ChunkHeader),
    /// Another record, with its skippable frame.
    Record {
        /// Kind.
        tag: Tag,
        /// Extent.
        extent: Extent,
        /// Payload.
        payload: Vec<u8>,
    },
    /// The seek table.
    SeekTable(Extent),
    /// Bytes that do not belong to this dump, up to the next valid record or the end.
    Damaged {
        /// Extent.
        extent: Extent,
        /// Error at the first of them.
        error: FormatError,
    },
}

/// Iterates over the records of a file.
pub struct Walk<'a, R: ReadAt + ?Sized> {
    file: &'a R,
    header: &'a VmdumpHeader,
    seek_table: Option<Extent>,
    offset: u64,
    end: u64,
}

impl<'a, R: ReadAt + ?Sized> Walk<'a, R> {
    /// Starts at `extent`, which should be the start of a record.
    pub fn new(file: &'a R, header: &'a VmdumpHeader, extent: Extent) -> Self {
        let end = extent.offset.saturating_add(extent.size).min(file.size());
        Self {
            file,
            header,
            seek_table: seek_table::find(file).ok().flatten(),
            offset: extent.offset,
            end,
        }
    }

    fn step_at(&self, offset: u64) -> Result<(WalkItem, u64), FormatError> {
        let mut head = [0; SIGNATURE];
        let left = self.end - offset;
        let len = (SIGNATURE as u64).min(left) as usize;
        self.file
            .read_exact_at("a record", offset, &mut head[..len])?;
        if len < FRAME_HEAD {
            return Err(FormatError::Truncated {
                what: "a record",
                offset,
                needed: FRAME_HEAD as u64,
                size: self.end,
            });
        }
        let frame = record::skippable_len(&head);
        let Some(size) = frame else {
            return Err(FormatError::unexpected(
                "a record",
                offset,
                "a skippable frame of this dump",
                format!("{:x?}", &head[..len]),
            ));
        };
        let extent = Extent { offset, size };
        if self.seek_table == Some(extent) {
            return Ok((WalkItem::SeekTable(extent), size));
        }
        if size > left {
            return Err(FormatError::Truncated {
                what: "a record",
                offset,
                needed: size,
                size: self.end,
            });
        }
        if size > u64::from(MAX_RECORD) {
            return Err(FormatError::unexpected(
                "a record",
                offset,
                format!("at most {MAX_RECORD} bytes"),
                size.to_string(),
            ));
        }
        let frame = self.file.read_vec_at("a record", offset, size)?;
        let record = record::decode_bare(&frame[FRAME_HEAD..], offset)?;
        if record.dump != self.header.dump() {
            return Err(FormatError::unexpected(
                "a record",
                offset,
                format!("one of dump {:016x}", self.header.dump()),
                format!("one of dump {:016x}", record.dump),
            ));
        }
        if record.tag != Tag::Chunk {
            let (tag, payload) = (record.tag, record.payload.to_vec());
            return Ok((
                WalkItem::Record {
                    tag,
                    extent,
                    payload,
                },
                size,
            ));
        }
        let chunk = ChunkHeader::decode(self.header, &record, offset)?;
        let whole = size + u64::from(chunk.chunk.packed);
        if whole > left {
            return Err(FormatError::Truncated {
                what: "a chunk",
                offset,
                needed: whole,
                size: self.end,
            });
        }
        Ok((WalkItem::Chunk(chunk), whole))
    }

    /// Returns the offset of the next valid record after `from`, or the end.
    fn resynchronize(&self, from: u64) -> u64 {
        let mut at = from;
        let mut bytes = vec![0; SEARCH + SIGNATURE];
        while at < self.end {
            let data = self.file.next_data(at);
            // A signature may start with zeros in a hole.
            at = at.max(data.saturating_sub(SIGNATURE as u64));
            let len = (bytes.len() as u64).min(self.end.saturating_sub(at)) as usize;
            if len < SIGNATURE
                || self
                    .file
                    .read_exact_at("it", at, &mut bytes[..len])
                    .is_err()
            {
                return self.end;
            }
            let last = len - SIGNATURE;
            for start in 0..=last {
                let signature = &bytes[start..start + SIGNATURE];
                if signature[1..4] == [0x2a, 0x4d, 0x18]
                    && self.is_ours(signature)
                    && self.step_at(at + start as u64).is_ok()
                {
                    return at + start as u64;
                }
            }
            at += last as u64 + 1;
        }
        self.end
    }

    fn is_ours(&self, signature: &[u8]) -> bool {
        record::skippable_len(signature).is_some()
            && Tag::ALL.iter().any(|tag| signature[8..16] == tag.bytes())
            && Endian::Little.u64(signature, 16) == Some(self.header.dump())
    }
}

impl<R: ReadAt + ?Sized> Iterator for Walk<'_, R> {
    type Item = WalkItem;

    fn next(&mut self) -> Option<WalkItem> {
        if self.offset >= self.end {
            return None;
        }
        let offset = self.offset;
        match self.step_at(offset) {
            Ok((step, size)) => {
                self.offset = offset + size;
                Some(step)
            }
            Err(error) => {
                self.offset = self.resynchronize(offset + 1);
                let size = self.offset - offset;
                Some(WalkItem::Damaged {
                    extent: Extent { offset, size },
                    error,
                })
            }
        }
    }
}
