//! Writes the headers of ELF core files.

use super::header::{EHDR_SIZE, LoadSegment, PHDR_SIZE, PN_XNUM, PT_LOAD, PT_NOTE, SHDR_SIZE};
use crate::bytes::Endian;

/// The headers and notes of a core file, which precede the memory.
#[derive(Clone, Debug)]
pub struct CoreLayout {
    /// e_machine.
    pub machine: u16,
    /// Byte order.
    pub endian: Endian,
    /// The notes.
    pub notes: Vec<u8>,
    /// The memory segments; `file_offset` is set by [`CoreLayout::place`].
    pub segments: Vec<LoadSegment>,
}

impl CoreLayout {
    /// Assigns the offset of each segment's data, contiguously from the first multiple of
    /// `alignment` after the headers; returns the size of the file, or `None` beyond 64 bits.
    pub fn place(&mut self, alignment: u64) -> Option<u64> {
        let headers = self.notes_offset() + self.notes.len() as u64;
        let mut offset = headers.checked_next_multiple_of(alignment)?;
        for segment in &mut self.segments {
            segment.file_offset = offset;
            offset = offset.checked_add(segment.file_size)?;
        }
        Some(offset)
    }

    /// Encodes the start of the file through the notes. With `incomplete`, e_flags marks a core
    /// that could not be finished, as makedumpfile's does (DUMP_ELF_INCOMPLETE).
    pub fn encode(&self, incomplete: bool) -> Vec<u8> {
        let mut out = vec![0; EHDR_SIZE];
        let count = self.segments.len() + 1;
        let extended = count >= usize::from(PN_XNUM);
        out[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        if self.endian == Endian::Big {
            out[5] = 2;
        }
        let e = self.endian;
        e.put_u16(&mut out, 16, 4);
        e.put_u16(&mut out, 18, self.machine);
        e.put_u32(&mut out, 20, 1);
        e.put_u64(&mut out, 32, EHDR_SIZE as u64);
        e.put_u32(&mut out, 48, u32::from(incomplete));
        e.put_u16(&mut out, 52, EHDR_SIZE as u16);
        e.put_u16(&mut out, 54, PHDR_SIZE as u16);
        e.put_u16(&mut out, 56, if extended { PN_XNUM } else { count as u16 });
        if extended {
            e.put_u64(&mut out, 40, (EHDR_SIZE + count * PHDR_SIZE) as u64);
            e.put_u16(&mut out, 58, SHDR_SIZE as u16);
            e.put_u16(&mut out, 60, 1);
        }
        let notes = LoadSegment {
            file_offset: self.notes_offset(),
            file_size: self.notes.len() as u64,
            physical: Default::default(),
            virt: Default::default(),
            memory_size: self.notes.len() as u64,
        };
        out.reserve(count * PHDR_SIZE + self.notes.len());
        self.put_header(&mut out, PT_NOTE, 0, &notes);
        for segment in &self.segments {
            self.put_header(&mut out, PT_LOAD, 7, segment);
        }
        if extended {
            let mut section = [0; SHDR_SIZE];
            e.put_u32(&mut section, 44, count as u32);
            out.extend_from_slice(&section);
        }
        out.extend_from_slice(&self.notes);
        out
    }

    fn notes_offset(&self) -> u64 {
        let count = self.segments.len() + 1;
        let sections = if count >= usize::from(PN_XNUM) {
            SHDR_SIZE
        } else {
            0
        };
        (EHDR_SIZE + count * PHDR_SIZE + sections) as u64
    }

    fn put_header(&self, out: &mut Vec<u8>, kind: u32, flags: u32, segment: &LoadSegment) {
        let mut phdr = [0; PHDR_SIZE];
        let e = self.endian;
        e.put_u32(&mut phdr, 0, kind);
        e.put_u32(&mut phdr, 4, flags);
        e.put_u64(&mut phdr, 8, segment.file_offset);
        e.put_u64(&mut phdr, 16, segment.virt.0);
        e.put_u64(&mut phdr, 24, segment.physical.0);
        e.put_u64(&mut phdr, 32, segment.file_size);
        e.put_u64(&mut phdr, 40, segment.memory_size);
        out.extend_from_slice(&phdr);
    }
}
