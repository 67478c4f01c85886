//! The block at the start and at the end of a dump device.

use std::fmt;
use std::ops::Range;

use xxhash_rust::xxh64::xxh64;

use crate::bytes::Endian;
use crate::error::FormatError;
use crate::kdump::Utsname;

/// Size of a block.
pub const BLOCK_SIZE: usize = 4096;
/// Offset of the contents: behind all boot loaders, partition tables and superblocks.
pub const CONTENTS_OFFSET: u64 = 64 << 10;
/// The first bytes of a block.
pub const NAME: [u8; 8] = *b"BIGIRDEV";
/// The version written.
const VERSION: u32 = 1;
/// Bytes in use; the rest is zero and reserved for later versions.
const HEADER_SIZE: u32 = 1040;

/// Maximum length of a report, in bytes.
pub const MAX_REPORT: u64 = 1 << 20;

const REPORT_AT: usize = 96;
const NEXT_AT: usize = 120;
const UTSNAME_AT: usize = 640;
const CHECKSUM_AT: usize = BLOCK_SIZE - 8;
const MARK_VALID: u32 = 1;
const MARK_COMPLETE: u32 = 2;
const ENDIAN: Endian = Endian::Little;

/// Offset of the end block of a device of this size.
pub fn end_block_offset(device_size: u64) -> u64 {
    let block = BLOCK_SIZE as u64;
    (device_size / block).saturating_sub(1) * block
}

/// Selects one of the two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPosition {
    /// The first 4 KiB.
    Start,
    /// The last whole 4 KiB.
    End,
}

impl BlockPosition {
    fn number(self) -> u32 {
        match self {
            Self::Start => 1,
            Self::End => 2,
        }
    }
}

/// A unique id of a dump.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DumpId(pub [u8; 16]);

impl fmt::Display for DumpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DumpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The format of the contents, informational: readers look at its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentsKind {
    /// ELF core.
    Elf,
    /// kdump-compressed.
    Kdump,
    /// vmdump.
    Vmdump,
    /// One of these, encrypted by age.
    Encrypted,
    /// Unknown to this version.
    Other(u32),
}

impl ContentsKind {
    fn number(self) -> u32 {
        match self {
            Self::Elf => 1,
            Self::Kdump => 2,
            Self::Vmdump => 3,
            Self::Encrypted => 4,
            Self::Other(number) => number,
        }
    }

    fn of_number(number: u32) -> Self {
        match number {
            1 => Self::Elf,
            2 => Self::Kdump,
            3 => Self::Vmdump,
            4 => Self::Encrypted,
            other => Self::Other(other),
        }
    }
}

/// Where the report of the dump is: what is known of the crash before any page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportPlace {
    /// Offset on the device, behind the contents.
    pub offset: u64,
    /// Length in bytes, up to [`MAX_REPORT`].
    pub length: u64,
    /// XXH64 of the bytes.
    pub checksum: u64,
}

/// The contents of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceHeader {
    /// Id of the dump.
    pub id: DumpId,
    /// Incremented by each change of the device's blocks; 0 follows the highest number.
    pub generation: u64,
    /// There is a dump that was not saved yet.
    pub valid: bool,
    /// The dump was written to its end.
    pub complete: bool,
    /// Format of the dump.
    pub contents: ContentsKind,
    /// Size of the device when the block was written.
    pub device_size: u64,
    /// Offset of the contents.
    pub offset: u64,
    /// Length of the contents; 0 if not known yet. For an incomplete encrypted dump, the length
    /// that is certainly on the disk.
    pub length: u64,
    /// Start of the dump, in seconds since 1970.
    pub began: u64,
    /// End of the dump; 0 if it is incomplete.
    pub ended: u64,
    /// Names of the dumped system.
    pub utsname: Utsname,
    /// The report, if there is one.
    pub report: Option<ReportPlace>,
    /// Where another dump device begins behind the contents, which ends where the room for them
    /// ends; 0 if there is none.
    pub next: u64,
}

impl DeviceHeader {
    /// Returns the end of the room for the contents.
    pub fn end_of_room(&self) -> u64 {
        let end = end_block_offset(self.device_size);
        self.report.map_or(end, |report| report.offset)
    }

    /// Returns the range of the dump device behind the contents, if there is one.
    pub fn next_device(&self) -> Option<Range<u64>> {
        (self.next != 0).then(|| self.next..self.end_of_room())
    }

    /// Returns the range behind the contents in which another dump device may be; `None` if the
    /// end of the contents is not known.
    pub fn behind(&self) -> Option<Range<u64>> {
        let end = self.offset.checked_add(self.length)?;
        let start = end.checked_next_multiple_of(CONTENTS_OFFSET)?;
        let room = start..self.end_of_room();
        (self.complete && !room.is_empty()).then_some(room)
    }

    /// Counts a change of the device's blocks.
    pub fn advance(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Returns true if this block was written after `other`. At most one block of two is some
    /// changes older, so the distance decides even where the number wrapped.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        let distance = self.generation.wrapping_sub(other.generation);
        distance.cast_signed() > 0
    }

    /// Encodes the block for `position`.
    pub fn encode(&self, position: BlockPosition) -> [u8; BLOCK_SIZE] {
        let mut block = [0; BLOCK_SIZE];
        let marks = [(self.valid, MARK_VALID), (self.complete, MARK_COMPLETE)];
        let marks = marks.iter().filter(|(set, _)| *set).map(|(_, bit)| bit);
        block[..8].copy_from_slice(&NAME);
        block[32..48].copy_from_slice(&self.id.0);
        for (at, value) in [
            (8, VERSION),
            (12, HEADER_SIZE),
            // Features that a reader must know: none yet.
            (16, 0),
            (20, marks.sum()),
            (24, self.contents.number()),
            (28, position.number()),
        ] {
            ENDIAN.put_u32(&mut block, at, value);
        }
        for (at, value) in [
            (48, self.device_size),
            (56, self.offset),
            (64, self.length),
            (72, self.began),
            (80, self.ended),
            (88, self.generation),
            (NEXT_AT, self.next),
        ] {
            ENDIAN.put_u64(&mut block, at, value);
        }
        if let Some(report) = self.report {
            let values = [report.offset, report.length, report.checksum];
            for (at, value) in (REPORT_AT..).step_by(8).zip(values) {
                ENDIAN.put_u64(&mut block, at, value);
            }
        }
        self.utsname
            .encode(&mut block[UTSNAME_AT..UTSNAME_AT + Utsname::SIZE]);
        let checksum = xxh64(&block[..CHECKSUM_AT], 0);
        ENDIAN.put_u64(&mut block, CHECKSUM_AT, checksum);
        block
    }

    /// Decodes the block read at `offset` of a device.
    ///
    /// # Errors
    ///
    /// It is not such a block, is damaged, or belongs to another offset.
    pub fn decode(block: &[u8], position: BlockPosition, offset: u64) -> Result<Self, FormatError> {
        let wrong = |what, at: usize, expected: String, found: String| {
            Err(FormatError::unexpected(
                what,
                offset + at as u64,
                expected,
                found,
            ))
        };
        let u32_at = |at| ENDIAN.u32(block, at).unwrap_or_default();
        let u64_at = |at| ENDIAN.u64(block, at).unwrap_or_default();
        if block.len() != BLOCK_SIZE || !block.starts_with(&NAME) {
            let front = String::from_utf8_lossy(&block[..block.len().min(8)]).into_owned();
            return wrong(
                "the block of a dump device",
                0,
                name(),
                format!("{front:?}"),
            );
        }
        let checksum = xxh64(&block[..CHECKSUM_AT], 0);
        if u64_at(CHECKSUM_AT) != checksum {
            return wrong(
                "the checksum of a dump device's block",
                CHECKSUM_AT,
                format!("{checksum:#x}"),
                format!("{:#x}: the block is damaged", u64_at(CHECKSUM_AT)),
            );
        }
        if (u32_at(8), u32_at(16)) != (VERSION, 0) {
            return wrong(
                "the version of a dump device's block",
                8,
                format!("{VERSION} without further features"),
                format!(
                    "{} with features {:#x}; use a newer bigiron",
                    u32_at(8),
                    u32_at(16)
                ),
            );
        }
        if u32_at(28) != position.number() {
            return wrong(
                "the place of a dump device's block",
                28,
                position.number().to_string(),
                format!("{}: it was moved here", u32_at(28)),
            );
        }
        let mut id = DumpId::default();
        id.0.copy_from_slice(&block[32..48]);
        let marks = u32_at(20);
        let report = ReportPlace {
            offset: u64_at(REPORT_AT),
            length: u64_at(REPORT_AT + 8),
            checksum: u64_at(REPORT_AT + 16),
        };
        let header = Self {
            id,
            generation: u64_at(88),
            valid: marks & MARK_VALID != 0,
            complete: marks & MARK_COMPLETE != 0,
            contents: ContentsKind::of_number(u32_at(24)),
            device_size: u64_at(48),
            offset: u64_at(56),
            length: u64_at(64),
            began: u64_at(72),
            ended: u64_at(80),
            utsname: Utsname::decode(&block[UTSNAME_AT..UTSNAME_AT + Utsname::SIZE]),
            report: (report.length != 0).then_some(report),
            next: u64_at(NEXT_AT),
        };
        let last = end_block_offset(header.device_size);
        let end = report.offset.checked_add(report.length);
        let is_inside = end.is_some_and(|end| end <= last) && report.length <= MAX_REPORT;
        if header.report.is_some() && !is_inside {
            return wrong(
                "the place of the report",
                REPORT_AT,
                format!("up to {MAX_REPORT} bytes before {last}, the end block of the device"),
                format!("{} bytes at {}", report.length, report.offset),
            );
        }
        let room = header.end_of_room();
        let end = header.offset.checked_add(header.length);
        if header.offset < BLOCK_SIZE as u64 || end.is_none_or(|end| end > room) {
            return wrong(
                "the place of the contents",
                56,
                format!("between {BLOCK_SIZE} and {room}, the blocks of the device"),
                format!("{} bytes at {}", header.length, header.offset),
            );
        }
        let starts_behind = end.is_some_and(|end| (end..room).contains(&header.next));
        if header.next != 0 && !starts_behind {
            return wrong(
                "the place of the next dump device",
                NEXT_AT,
                format!("behind the contents, and before {room}"),
                header.next.to_string(),
            );
        }
        Ok(header)
    }
}

fn name() -> String {
    format!("{:?}", String::from_utf8_lossy(&NAME))
}
