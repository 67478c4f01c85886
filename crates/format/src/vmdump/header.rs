//! The header, which describes the dump before its first page.

use crate::bytes::Endian;
use crate::error::FormatError;
use crate::kdump::Utsname;

/// The version of the format implemented here.
pub const VERSION: u16 = 1;
/// Size of the header's payload in version 1. Later versions may be longer.
pub const HEADER_SIZE: usize = 88 + UTSNAME_ROOM;
/// Six names of 65 bytes, rounded up to a multiple of eight.
const UTSNAME_ROOM: usize = 392;
/// Maximum size of a chunk's pages: a reader holds a whole chunk in memory.
pub const MAX_CHUNK_BYTES: u64 = 16 << 20;

const LE: Endian = Endian::Little;

/// The container format, determined by the codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// zstd frames.
    Zstd,
    /// bzip2 streams.
    Bzip2,
}

impl Container {
    /// Name of the codec.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
        }
    }
}

/// The header of a vmdump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmdumpHeader {
    /// Container.
    pub container: Container,
    /// log2 of the page size.
    pub page_shift: u32,
    /// e_machine of the core.
    pub machine: u16,
    /// Byte order of the dumped machine.
    pub endian: Endian,
    /// Dump level, a sum of bits.
    pub dump_level: u8,
    /// Pages of a chunk of memory; the last one may have fewer.
    pub chunk_pages: u32,
    /// Offset of the memory in the core, after headers and notes.
    pub memory_offset: u64,
    /// Size of the core, in bytes.
    pub core_size: u64,
    /// Start of the dump, in seconds since 1970.
    pub time: u64,
    /// A unique id.
    pub id: [u8; 16],
    /// Part number, from 0 on, and number of parts.
    pub stripe: (u16, u16),
    /// The dumped system.
    pub utsname: Utsname,
}

impl VmdumpHeader {
    /// The dump number: the part of the id that every record carries.
    pub fn dump(&self) -> u64 {
        LE.u64(&self.id, 0).unwrap_or(0)
    }

    /// Page size, in bytes.
    pub fn page_size(&self) -> u64 {
        1 << self.page_shift
    }

    /// Returns true if this is a part of a striped dump.
    pub fn is_striped(&self) -> bool {
        self.stripe.1 > 1
    }

    /// Size of a chunk of memory, in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        u64::from(self.chunk_pages) << self.page_shift
    }

    /// Encodes the payload of the header's record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_SIZE];
        LE.put_u16(&mut out, 0, VERSION);
        LE.put_u16(
            &mut out,
            2,
            match self.container {
                Container::Zstd => 1,
                Container::Bzip2 => 2,
            },
        );
        // At 4 incompatible flags, at 8 compatible ones: none yet.
        LE.put_u32(&mut out, 12, self.page_shift);
        LE.put_u16(&mut out, 16, self.machine);
        out[18] = if self.endian == Endian::Little { 1 } else { 2 };
        out[19] = self.dump_level;
        LE.put_u32(&mut out, 20, self.chunk_pages);
        LE.put_u64(&mut out, 24, self.memory_offset);
        LE.put_u64(&mut out, 32, self.core_size);
        LE.put_u64(&mut out, 40, self.time);
        out[48..64].copy_from_slice(&self.id);
        LE.put_u16(&mut out, 64, self.stripe.0);
        LE.put_u16(&mut out, 66, self.stripe.1);
        self.utsname.encode(&mut out[88..88 + Utsname::SIZE]);
        out
    }

    /// Decodes the payload of the header's record at `offset`.
    pub fn decode(payload: &[u8], offset: u64) -> Result<Self, FormatError> {
        let unexpected = |what, expected: &str, found: u64| {
            Err(FormatError::unexpected(
                what,
                offset,
                expected,
                found.to_string(),
            ))
        };
        if payload.len() < HEADER_SIZE {
            let (what, found) = ("the length of the vmdump header", payload.len() as u64);
            return unexpected(what, "480 bytes or more", found);
        }
        let u16_at = |at| LE.u16(payload, at).unwrap_or(0);
        let u32_at = |at| LE.u32(payload, at).unwrap_or(0);
        let u64_at = |at| LE.u64(payload, at).unwrap_or(0);
        if u16_at(0) != VERSION {
            return unexpected("the version of the vmdump", "1", u16_at(0).into());
        }
        let container = match u16_at(2) {
            1 => Container::Zstd,
            2 => Container::Bzip2,
            other => return unexpected("the codec of the vmdump", "1 or 2", other.into()),
        };
        if u32_at(4) != 0 {
            let (what, found) = ("the vmdump's incompatible flags", u32_at(4));
            return unexpected(what, "0; a newer bigiron knows these", found.into());
        }
        let page_shift = u32_at(12);
        if !(12..=16).contains(&page_shift) {
            return unexpected(
                "the page shift of the vmdump",
                "12 to 16",
                page_shift.into(),
            );
        }
        let endian = match payload[18] {
            1 => Endian::Little,
            2 => Endian::Big,
            other => return unexpected("the vmdump's byte order", "1 or 2", other.into()),
        };
        let stripe = (u16_at(64), u16_at(66));
        if stripe.1 == 0 || stripe.0 >= stripe.1 {
            return unexpected(
                "the vmdump's stripe",
                "one below their count",
                stripe.0.into(),
            );
        }
        let header = Self {
            container,
            page_shift,
            machine: u16_at(16),
            endian,
            dump_level: payload[19],
            chunk_pages: u32_at(20),
            memory_offset: u64_at(24),
            core_size: u64_at(32),
            time: u64_at(40),
            id: std::array::from_fn(|index| payload[48 + index]),
            stripe,
            utsname: Utsname::decode(&payload[88..88 + Utsname::SIZE]),
        };
        if header.chunk_pages == 0 || header.chunk_bytes() > MAX_CHUNK_BYTES {
            let (what, found) = ("the pages of a chunk", header.chunk_pages);
            return unexpected(what, "1 to 16 MiB of them", found.into());
        }
        let memory = header.core_size.checked_sub(header.memory_offset);
        let whole = |bytes: u64| bytes.is_multiple_of(header.page_size());
        if !memory.is_some_and(whole) || !whole(header.memory_offset) {
            let (what, found) = ("the offset of the memory", header.memory_offset);
            return unexpected(what, "whole pages before and behind it", found);
        }
        Ok(header)
    }
}
