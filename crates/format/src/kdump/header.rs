//! The main header and the sub-header.

use std::ops::Range;

use super::layout::{Layout, SUB_HEADER_SIZE};
use crate::bytes::{Endian, ReadAt};
use crate::elf::Notes;
use crate::error::FormatError;

/// Signature of the file.
pub const SIGNATURE: &[u8; 8] = b"KDUMP   ";
/// Size of the main header, with 64-bit time stamps.
pub const HEADER_SIZE: usize = 464;
/// The header version that has every field of the sub-header.
pub const VERSION: i32 = 6;

/// status: the dump is incomplete; lost pages have descriptors of zeros.
const STATUS_INCOMPLETE: u32 = 0x8;
/// status: struct pages of excluded page frames are left out (DUMP_DH_EXCLUDED_VMEMMAP).
const STATUS_EXCLUDED_VMEMMAP: u32 = 0x10;
/// Size of a name in the header's utsname (__NEW_UTS_LEN + 1).
const UTS_LEN: usize = 65;
/// Maximum size of the sub-header with its notes; no machine's CPUs fill it.
const MAX_SUB_HEADER_SIZE: u64 = 256 << 20;
/// Maximum page frame number: 2^52 bytes of 4 KiB pages.
const MAX_END_FRAME: u64 = 1 << 40;

/// The names of the dumped system, as returned by uname(2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Utsname {
    /// sysname, nodename, release, version, machine, domainname.
    pub names: [String; 6],
}

impl Utsname {
    /// The kernel's release.
    pub fn release(&self) -> &str {
        &self.names[2]
    }

    /// The machine, from which readers determine the architecture.
    pub fn machine(&self) -> &str {
        &self.names[4]
    }

    /// Decodes a `struct new_utsname` (include/uapi/linux/utsname.h).
    pub fn decode(bytes: &[u8]) -> Self {
        let mut names: [String; 6] = Default::default();
        for (name, field) in names.iter_mut().zip(bytes.chunks(UTS_LEN)) {
            let end = field
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(field.len());
            *name = String::from_utf8_lossy(&field[..end]).into_owned();
        }
        Self { names }
    }

    /// Size of a `struct new_utsname`.
    pub const SIZE: usize = 6 * UTS_LEN;

    pub(crate) fn encode(&self, out: &mut [u8]) {
        for (name, field) in self.names.iter().zip(out.chunks_mut(UTS_LEN)) {
            let len = name.len().min(UTS_LEN - 1);
            field[..len].copy_from_slice(&name.as_bytes()[..len]);
        }
    }
}

/// The headers of a kdump-compressed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KdumpHeaders {
    /// Byte order.
    pub endian: Endian,
    /// The version of the header, up to [`VERSION`].
    pub version: i32,
    /// Names of the dumped system.
    pub utsname: Utsname,
    /// Time of the dump: seconds and microseconds since 1970.
    pub timestamp: (i64, i64),
    /// Codec flags, see [`super::flags_of_codec`].
    pub codec_flags: u32,
    /// The dump is incomplete.
    pub incomplete: bool,
    /// Block size in bytes, which is the page size.
    pub block_size: u32,
    /// Number of CPUs of the dumped system.
    pub cpu_count: u32,
    /// Difference between physical and linked addresses of the kernel.
    pub phys_base: u64,
    /// Dump level, a sum of bits (see `DumpLevel`).
    pub dump_level: u32,
    /// Struct pages of excluded page frames are left out.
    pub lacks_struct_pages: bool,
    /// For a part of a split dump: its page frames.
    pub split: Option<(u64, u64)>,
    /// The page frame after the highest.
    pub end_frame: u64,
    /// Offset of the ELF notes in the file.
    pub offset_note: u64,
    /// The ELF notes.
    pub notes: Vec<u8>,
    /// Records of what was erased, as text; stored after the notes.
    pub erase_info: Vec<u8>,
    /// Offset and size of VMCOREINFO's text in the file.
    pub vmcoreinfo: Option<(u64, u64)>,
    /// Layout of the file.
    pub layout: Layout,
}

impl KdumpHeaders {
    /// Returns true if a file that starts with `front` is kdump-compressed.
    pub fn is_kdump(front: &[u8]) -> bool {
        front.starts_with(SIGNATURE)
    }

    /// The page frames whose descriptors the file has.
    pub fn frames(&self) -> Range<u64> {
        let end = self.end_frame;
        let (start, stop) = self.split.unwrap_or((0, end));
        start.min(end)..stop.min(end).max(start.min(end))
    }

    /// Returns the ELF notes.
    pub fn notes(&self) -> Notes<'_> {
        Notes::new(&self.notes, self.endian, self.offset_note)
    }

    /// Reads the system names only, which are at the same place in the headers of 32-bit machines.
    pub fn read_utsname(file: &(impl ReadAt + ?Sized)) -> Result<Utsname, FormatError> {
        let mut names = [0; Utsname::SIZE];
        file.read_exact_at("the kdump header", 12, &mut names)?;
        Ok(Utsname::decode(&names))
    }

    /// Reads and checks the headers.
    pub fn read(file: &(impl ReadAt + ?Sized)) -> Result<Self, FormatError> {
        let mut main = [0; HEADER_SIZE];
        file.read_exact_at("the kdump header", 0, &mut main)?;
        if !Self::is_kdump(&main) {
            let found = String::from_utf8_lossy(&main[..8]).into_owned();
            return Err(FormatError::unexpected("the signature", 0, "KDUMP", found));
        }
        let endian = byte_order(&main)?;
        let u32_at = |offset| endian.u32(&main, offset).unwrap_or(0);
        let version = u32_at(8).cast_signed();
        let block_size = u32_at(428);
        if !(block_size.is_power_of_two() && (4096..=65536).contains(&block_size)) {
            return Err(FormatError::unexpected(
                "the block size of the kdump header",
                428,
                "a power of two from 4096 to 65536",
                block_size.to_string(),
            ));
        }
        let sub_header_blocks = u64::from(u32_at(432));
        let sub_header_size = sub_header_blocks * u64::from(block_size);
        if sub_header_size < SUB_HEADER_SIZE as u64 || sub_header_size > MAX_SUB_HEADER_SIZE {
            return Err(FormatError::unexpected(
                "the size of the sub-header in blocks",
                432,
                format!("1 to {}", MAX_SUB_HEADER_SIZE / u64::from(block_size)),
                sub_header_blocks.to_string(),
            ));
        }
        let bitmap_blocks = u64::from(u32_at(436));
        let status = u32_at(424);
        let mut sub = [0; SUB_HEADER_SIZE];
        file.read_exact_at("the kdump sub-header", u64::from(block_size), &mut sub)?;
        let u64_at = |offset| endian.u64(&sub, offset).unwrap_or(0);

        let end_frame = if version >= 6 {
            u64_at(96)
        } else {
            u64::from(u32_at(440))
        };
        let layout = Layout {
            block_size: u64::from(block_size),
            sub_header_blocks,
            bitmap_size: bitmap_blocks / 2 * u64::from(block_size),
        };
        if end_frame == 0 || end_frame > MAX_END_FRAME {
            return Err(FormatError::unexpected(
                "the number of page frames in the kdump header",
                u64::from(block_size) + 96,
                format!("1 to {MAX_END_FRAME}"),
                end_frame.to_string(),
            ));
        }
        if layout.bitmap_size < end_frame.div_ceil(8) {
            return Err(FormatError::unexpected(
                "the number of bitmap blocks in the kdump header",
                436,
                format!(
                    "at least {}",
                    2 * end_frame.div_ceil(8).div_ceil(u64::from(block_size))
                ),
                bitmap_blocks.to_string(),
            ));
        }
        let split = endian.u32(&sub, 12).unwrap_or(0) != 0;
        let range = if version >= 6 {
            (u64_at(80), u64_at(88))
        } else {
            (u64_at(16), u64_at(24))
        };
        let part = |size_offset: usize| {
            let (offset, size) = (u64_at(size_offset - 8), u64_at(size_offset));
            (offset != 0 && size != 0).then_some((offset, size))
        };
        let notes = match part(56) {
            Some((offset, size)) if version >= 4 && size <= MAX_SUB_HEADER_SIZE => {
                file.read_vec_at("the notes", offset, size)?
            }
            Some((offset, size)) if version >= 4 => {
                return Err(FormatError::unexpected(
                    "the size of the notes",
                    u64::from(block_size) + 56,
                    format!("at most {MAX_SUB_HEADER_SIZE}"),
                    format!("{size} at offset {offset:#x}"),
                ));
            }
            _ => Vec::new(),
        };
        Ok(Self {
            endian,
            version,
            utsname: Utsname::decode(&main[12..12 + Utsname::SIZE]),
            timestamp: (
                endian.i64(&main, 408).unwrap_or(0),
                endian.i64(&main, 416).unwrap_or(0),
            ),
            codec_flags: status & 0x27,
            incomplete: status & STATUS_INCOMPLETE != 0,
            block_size,
            cpu_count: u32_at(460),
            phys_base: u64_at(0),
            dump_level: endian.u32(&sub, 8).unwrap_or(0),
            lacks_struct_pages: status & STATUS_EXCLUDED_VMEMMAP != 0,
            split: (split && version >= 2).then_some(range),
            end_frame,
            offset_note: u64_at(48),
            notes,
            // makedumpfile writes it last, so a truncated dump lacks it.
            erase_info: match part(72) {
                Some((offset, size)) if version >= 5 && size <= MAX_SUB_HEADER_SIZE => file
                    .read_vec_at("the erase info", offset, size)
                    .unwrap_or_default(),
                _ => Vec::new(),
            },
            vmcoreinfo: if version >= 3 { part(40) } else { None },
            layout,
        })
    }

    /// Encodes the header blocks: main header, sub-header, notes.
    pub fn encode(&self) -> Vec<u8> {
        let e = self.endian;
        let bs = self.layout.block_size as usize;
        let mut out = vec![0; self.layout.ram_bitmap() as usize];
        let main = &mut out[..bs];
        main[..8].copy_from_slice(SIGNATURE);
        e.put_i32(main, 8, VERSION);
        self.utsname.encode(&mut main[12..12 + Utsname::SIZE]);
        e.put_i64(main, 408, self.timestamp.0);
        e.put_i64(main, 416, self.timestamp.1);
        let mut status = self.codec_flags;
        if self.incomplete {
            status |= STATUS_INCOMPLETE;
        }
        if self.lacks_struct_pages {
            status |= STATUS_EXCLUDED_VMEMMAP;
        }
        e.put_u32(main, 424, status);
        e.put_u32(main, 428, self.block_size);
        e.put_u32(main, 432, self.layout.sub_header_blocks as u32);
        e.put_u32(
            main,
            436,
            (2 * self.layout.bitmap_size / self.layout.block_size) as u32,
        );
        e.put_u32(main, 440, self.end_frame.min(u64::from(u32::MAX)) as u32);
        e.put_u32(main, 460, self.cpu_count.max(1));

        let offset_note = self.layout.notes();
        let sub = &mut out[bs..];
        e.put_u64(sub, 0, self.phys_base);
        e.put_u32(sub, 8, self.dump_level);
        if let Some((start, end)) = self.split {
            e.put_u32(sub, 12, 1);
            e.put_u64(sub, 16, start);
            e.put_u64(sub, 24, end);
            e.put_u64(sub, 80, start);
            e.put_u64(sub, 88, end);
        }
        if let Some((offset, size)) = self.vmcoreinfo {
            e.put_u64(sub, 32, offset);
            e.put_u64(sub, 40, size);
        }
        if !self.notes.is_empty() {
            e.put_u64(sub, 48, offset_note);
            e.put_u64(sub, 56, self.notes.len() as u64);
            sub[SUB_HEADER_SIZE..][..self.notes.len()].copy_from_slice(&self.notes);
        }
        let end = SUB_HEADER_SIZE + self.notes.len();
        if let (false, Some(bytes)) = (
            self.erase_info.is_empty(),
            sub.get_mut(end..end + self.erase_info.len()),
        ) {
            bytes.copy_from_slice(&self.erase_info);
            e.put_u64(sub, 64, offset_note + self.notes.len() as u64);
            e.put_u64(sub, 72, self.erase_info.len() as u64);
        }
        e.put_u64(sub, 96, self.end_frame);
        out
    }
}

/// Determines the byte order in which the header's version is valid.
fn byte_order(main: &[u8; HEADER_SIZE]) -> Result<Endian, FormatError> {
    [Endian::Little, Endian::Big]
        .into_iter()
        .find(|endian| {
            endian
                .i32(main, 8)
                .is_some_and(|version| (1..=VERSION).contains(&version))
        })
        .ok_or_else(|| {
            FormatError::unexpected(
                "the version of the kdump header",
                8,
                format!("1 to {VERSION}"),
                Endian::Little.i32(main, 8).unwrap_or(0).to_string(),
            )
        })
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
