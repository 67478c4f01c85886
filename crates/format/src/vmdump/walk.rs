//! Walks a vmdump from record to record, and across damage to the next valid one, for readers
//! without an index and for checks.

use super::chunk::ChunkHeader;
use super::header::VmdumpHeader;
use super::record::{self, FRAME_HEAD, MAX_RECORD, RECORD_HEAD, Tag};
use super::{Extent, seek_table};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;
use crate::salvage::{Salvager, Unreadable};

/// Bytes searched at once for the next valid record, at first and at most.
const FIRST_SEARCH: usize = 4 << 10;
const MAX_SEARCH: usize = 1 << 20;
/// Bytes of false records that a search reads, for each byte of the file. Records that other
/// dumps left are of other numbers, so only a forged file has more.
const FALSE_RECORDS_PER_BYTE: u64 = 4;
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
        /// True if valid records may be among them: some bytes cannot be read, or the search
        /// gave up.
        may_hold_records: bool,
    },
}

/// Iterates over the records of a file.
pub struct Walk<'a, R: ReadAt + ?Sized> {
    file: &'a R,
    header: &'a VmdumpHeader,
    seek_table: Option<Extent>,
    offset: u64,
    end: u64,
    salvager: Salvager,
    /// Bytes of false records that may still be read.
    false_records: u64,
    gave_up: bool,
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
            salvager: Salvager::default(),
            false_records: file.size().saturating_mul(FALSE_RECORDS_PER_BYTE),
            gave_up: false,
        }
    }

    /// The ranges in which no record could be looked for, so far.
    pub fn unreadable(&self) -> &Unreadable {
        self.salvager.unreadable()
    }

    fn step_at(&mut self, offset: u64) -> Result<(WalkItem, u64), FormatError> {
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
        let Some(false_records) = self.false_records.checked_sub(size) else {
            self.gave_up = true;
            return Err(FormatError::unexpected(
                "a record",
                offset,
                "fewer bytes in records with false checksums",
                "more than the search for valid ones reads: what follows is not looked at",
            ));
        };
        let before = std::mem::replace(&mut self.false_records, false_records);
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
        self.false_records = before;
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

    /// Finds the next valid record after `from`.
    fn resynchronize(&mut self, from: u64) -> Resynchronized {
        let mut found = Resynchronized {
            offset: self.end,
            is_sure: !self.gave_up,
        };
        if self.gave_up {
            return found;
        }
        let mut at = from;
        let mut bytes = Vec::new();
        let mut search = FIRST_SEARCH;
        while at < self.end {
            let data = self.file.next_data(at);
            // A signature may start with zeros in a hole.
            at = at.max(data.saturating_sub(SIGNATURE as u64));
            let len = ((search + SIGNATURE) as u64).min(self.end.saturating_sub(at)) as usize;
            if len < SIGNATURE {
                break;
            }
            bytes.resize(len, 0);
            match self.salvager.read(self.file, "a record", at, &mut bytes) {
                Ok(whole) => found.is_sure &= whole,
                // The file has become shorter.
                Err(_) => break,
            }
            let last = len - SIGNATURE;
            for start in 0..=last {
                let signature = &bytes[start..start + SIGNATURE];
                if signature[1..4] != [0x2a, 0x4d, 0x18] || !self.is_ours(signature) {
                    continue;
                }
                let offset = at + start as u64;
                match self.step_at(offset) {
                    Ok(_) => return Resynchronized { offset, ..found },
                    Err(FormatError::Io { .. }) => found.is_sure = false,
                    Err(_) if self.gave_up => {
                        found.is_sure = false;
                        return found;
                    }
                    Err(_) => {}
                }
            }
            at += last as u64 + 1;
            search = (search * 2).min(MAX_SEARCH);
        }
        found
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
                let found = self.resynchronize(offset + 1);
                self.offset = found.offset;
                let size = self.offset - offset;
                let may_hold_records = !found.is_sure || matches!(error, FormatError::Io { .. });
                Some(WalkItem::Damaged {
                    extent: Extent { offset, size },
                    error,
                    may_hold_records,
                })
            }
        }
    }
}

/// The result of a search for the next valid record.
struct Resynchronized {
    /// Its offset, or the end.
    offset: u64,
    /// True if there is certainly none before it.
    is_sure: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::super::header::Container;
    use super::super::record::encode;
    use super::*;
    use crate::failing::Failing;
    use crate::kdump::Utsname;

    const DUMP: u64 = 0x1122_3344_5566_7788;
    const SECTOR: u64 = 512;

    fn header() -> VmdumpHeader {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&DUMP.to_le_bytes());
        VmdumpHeader {
            container: Container::Zstd,
            page_shift: 12,
            machine: 62,
            endian: Endian::Little,
            dump_level: 0,
            chunk_pages: 256,
            memory_offset: 4096,
            core_size: 1 << 20,
            time: 0,
            id,
            stripe: (0, 1),
            utsname: Utsname::default(),
        }
    }

    /// Returns the records of `file`, by their payloads, and the damaged ranges.
    fn walk(file: &Failing<Vec<u8>>) -> (Vec<Vec<u8>>, Vec<(Extent, bool)>) {
        let header = header();
        let all = Extent {
            offset: 0,
            size: file.size(),
        };
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        for item in Walk::new(file, &header, all) {
            match item {
                WalkItem::Record { payload, .. } => records.push(payload),
                WalkItem::Damaged {
                    extent,
                    may_hold_records,
                    ..
                } => damaged.push((extent, may_hold_records)),
                WalkItem::Chunk(_) | WalkItem::SeekTable(_) => {}
            }
        }
        (records, damaged)
    }

    /// Returns 100 records of different sizes, one after the other, and their extents.
    fn records() -> (Vec<u8>, Vec<Extent>) {
        let (mut bytes, mut extents) = (Vec::new(), Vec::new());
        for number in 0_u8..100 {
            let record = encode(
                Tag::Index,
                DUMP,
                &vec![number; 100 + usize::from(number) * 7],
            );
            extents.push(Extent {
                offset: bytes.len() as u64,
                size: record.len() as u64,
            });
            bytes.extend(record);
        }
        (bytes, extents)
    }

    #[test]
    fn unreadable_sectors_hide_only_the_records_in_them() {
        let (bytes, extents) = records();
        let sectors = bytes.len() as u64 / SECTOR;
        for bad in 0..sectors {
            let range = bad * SECTOR..(bad + 1) * SECTOR;
            let (found, damaged) = walk(&Failing::new(bytes.clone(), vec![range.clone()]));
            let intact = extents.iter().enumerate().filter(|(_, extent)| {
                extent.offset + extent.size <= range.start || range.end <= extent.offset
            });
            let expected: Vec<u8> = intact.map(|(number, _)| number as u8).collect();
            let found: Vec<u8> = found.iter().map(|payload| payload[0]).collect();
            assert_eq!(found, expected, "sector {bad}");
            assert_eq!(damaged.len(), 1, "sector {bad}");
            assert!(damaged[0].1, "sector {bad}: {damaged:?}");
        }
    }

    #[test]
    fn damage_that_can_be_read_hides_no_other_record() {
        let (mut bytes, extents) = records();
        let hit = extents[50];
        bytes[hit.offset as usize + 60] ^= 1;
        let (found, damaged) = walk(&Failing::new(bytes, Vec::new()));
        assert_eq!(found.len(), 99);
        assert_eq!(damaged, [(hit, false)]);
    }

    #[test]
    fn false_records_cost_time_in_proportion_to_the_file() {
        // Heads of records that reach to the end of the file, as close as heads can be.
        let size = SIGNATURE << 15;
        let mut bytes = Vec::new();
        while bytes.len() + SIGNATURE <= size {
            let rest = (size - bytes.len() - FRAME_HEAD) as u32;
            bytes.extend(record::SKIPPABLE_MAGIC.to_le_bytes());
            bytes.extend(rest.to_le_bytes());
            bytes.extend(Tag::Index.bytes());
            bytes.extend(DUMP.to_le_bytes());
        }
        let file = Failing::new(bytes, Vec::new());
        let (found, damaged) = walk(&file);
        assert!(found.is_empty());
        assert!(damaged.last().unwrap().1, "the search gave up");
        let most = (FALSE_RECORDS_PER_BYTE + 4) * size as u64;
        assert!(file.bytes_read() < most, "{}", file.bytes_read());
    }

    #[test]
    fn damage_between_short_records_costs_time_in_proportion_to_the_file() {
        let record = encode(Tag::Metadata, DUMP, b"");
        let mut bytes = Vec::new();
        for _ in 0..8192 {
            bytes.extend(&record);
            bytes.extend([0x5a; 32]);
        }
        let size = bytes.len() as u64;
        let file = Failing::new(bytes, Vec::new());
        let (found, damaged) = walk(&file);
        assert_eq!((found.len(), damaged.len()), (8192, 8192));
        let most = 8192 * (FIRST_SEARCH as u64 + 256) + 4 * size;
        assert!(file.bytes_read() < most, "{}", file.bytes_read());
    }
}
