//! Frames of a program by its tables of call frames (.eh_frame, Linux Standard Base Core
//! "Exception Frames"), which are in its memory.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::SIGNATURE;
use bigiron_format::elf::header::{EHDR_SIZE, PHDR_SIZE, PT_LOAD};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EhFrameOffset, LittleEndian, Pointer, Register,
    RegisterRule, UnwindContext, UnwindSection,
};

use super::mappings::Mapping;
use super::memory::UserMemory;
use crate::error::InspectError;

/// Numbers of DWARF registers that are kept: x86-64 has 16 and the return address, arm64 31 and the
/// stack pointer.
pub const REGISTERS: usize = 33;
/// p_type of the tables.
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
/// Maximum number of program headers.
const MAX_HEADERS: usize = 64;
/// Maximum size of the tables of one file.
const MAX_TABLES: u64 = 16 << 20;
const PAGE: u64 = 4096;

/// The values of registers in a frame, by their DWARF numbers.
pub type Registers = [Option<u64>; REGISTERS];

/// The tables of a file that is mapped.
pub struct CallFrames {
    bases: BaseAddresses,
    header: Vec<u8>,
    frames: Vec<u8>,
    /// Address of the tables.
    frames_at: u64,
}

impl CallFrames {
    /// Reads the tables of the file of `mapping`, whose parts are among `all`. `None` if it has none,
    /// or if the process had not touched its header or them, or if these pages are not in the dump.
    pub fn of(memory: &UserMemory, all: &[Mapping], mapping: &Mapping) -> Option<Self> {
        // The part of the same file that has its header, at or below the address.
        let mut below = all.iter().rev().filter(|one| one.start <= mapping.start);
        let first = below.find(|one| {
            one.offset == 0 && (one.file == mapping.file && one.name == mapping.name)
        })?;
        Self::read(memory, all, first).ok().flatten()
    }

    fn read(
        memory: &UserMemory,
        all: &[Mapping],
        first: &Mapping,
    ) -> Result<Option<Self>, InspectError> {
        const WHAT: &str = "the tables of a program";
        let start = first.start.0;
        let mut header = [0; EHDR_SIZE];
        memory.read(WHAT, first.start, &mut header)?;
        if !header.starts_with(&SIGNATURE) {
            return Ok(None);
        }
        let number = |bytes: &[u8], at: usize| Endian::Little.u64(bytes, at).unwrap_or(0);
        let table = number(&header, 32);
        let count = Endian::Little.u16(&header, 56).unwrap_or(0);
        let mut headers = vec![0; PHDR_SIZE * usize::from(count).min(MAX_HEADERS)];
        memory.read(WHAT, VirtAddr(start.wrapping_add(table)), &mut headers)?;
        let (mut bias, mut place) = (None, None);
        for header in headers.as_chunks::<PHDR_SIZE>().0 {
            let (offset, at) = (number(header, 8), number(header, 16));
            match Endian::Little.u32(header, 0) {
                Some(PT_LOAD) if offset == 0 => bias = Some(start.wrapping_sub(at)),
                Some(PT_GNU_EH_FRAME) => place = Some((at, number(header, 40))),
                _ => {}
            }
        }
        let (Some(bias), Some((at, size))) = (bias, place) else {
            return Ok(None);
        };
        let header_at = bias.wrapping_add(at);
        let mut header = vec![0; size.min(MAX_TABLES) as usize];
        memory.read(WHAT, VirtAddr(header_at), &mut header)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(header_at);
        let Ok(parsed) = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8) else {
            return Ok(None);
        };
        let Pointer::Direct(frames_at) = parsed.eh_frame_ptr() else {
            return Ok(None);
        };
        // The tables end with the mapping, at the latest. A page that is absent is empty.
        let Some(part) = all.iter().find(|one| one.holds(frames_at)) else {
            return Ok(None);
        };
        let size = part.end.0.saturating_sub(frames_at).min(MAX_TABLES);
        let mut frames = vec![0; size as usize];
        let mut done = 0;
        while done < size {
            let at = frames_at.wrapping_add(done);
            let len = (PAGE - at % PAGE).min(size - done);
            let piece = frames.get_mut(done as usize..(done + len) as usize);
            if memory
                .read(WHAT, VirtAddr(at), piece.unwrap_or_default())
                .is_err()
                && done == 0
            {
                return Ok(None);
            }
            done += len;
        }
        Ok(Some(Self {
            bases: bases.set_eh_frame(frames_at),
            header,
            frames,
            frames_at,
        }))
    }

    /// Returns the registers of the caller of the frame with these, whose code is at `code`; `sp` is
    /// the number of the stack pointer. `None` if the tables do not tell: a signal's frame has its
    /// registers by expressions, which are not computed.
    pub fn caller(
        &self,
        memory: &UserMemory,
        registers: &Registers,
        code: u64,
        sp: usize,
    ) -> Option<Registers> {
        let header = EhFrameHdr::new(&self.header, LittleEndian);
        let header = header.parse(&self.bases, 8).ok()?;
        let found = header.table()?.lookup(code, &self.bases).ok()?;
        let Pointer::Direct(at) = found else {
            return None;
        };
        let offset = usize::try_from(at.checked_sub(self.frames_at)?).ok()?;
        let frames = EhFrame::new(&self.frames, LittleEndian);
        let entry = frames
            .fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset)
            .ok()?;
        if !entry.contains(code) {
            return None;
        }
        let mut context: UnwindContext<usize> = UnwindContext::new();
        let row = entry
            .unwind_info_for_address(&frames, &self.bases, &mut context, code)
            .ok()?;
        let of = |register: Register| registers.get(usize::from(register.0)).copied().flatten();
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
            return None;
        };
        let frame = of(*register)?.wrapping_add_signed(*offset);
        let word = |offset: i64| {
            let at = VirtAddr(frame.wrapping_add_signed(offset));
            memory.word("the stack of a process", at).ok()
        };
        let mut caller: Registers = [None; REGISTERS];
        for (number, value) in caller.iter_mut().enumerate() {
            let register = Register(number as u16);
            *value = match row.register(register) {
                // Not mentioned: as a callee leaves it.
                RegisterRule::Undefined | RegisterRule::SameValue => of(register),
                RegisterRule::Offset(offset) => word(offset),
                RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(offset)),
                RegisterRule::Register(other) => of(other),
                _ => None,
            };
        }
        if let Some(value) = caller.get_mut(sp) {
            *value = Some(frame);
        }
        Some(caller)
    }
}
