//! The ELF header and the program headers of a core file.
//!
//! The order of headers is not fixed: QEMU 7.2 writes the section headers first (e_phoff = 192)
//! and e_ehsize = 8.

use super::note::Notes;
use crate::address::{PhysAddr, VirtAddr};
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

/// The first four bytes of every ELF file.
pub const SIGNATURE: [u8; 4] = *b"\x7fELF";
/// e_machine of x86-64 (EM_X86_64).
pub const MACHINE_X86_64: u16 = 62;

/// Size of an Elf64_Ehdr.
pub const EHDR_SIZE: usize = 64;
/// Size of an Elf64_Phdr.
pub const PHDR_SIZE: usize = 56;
/// Size of an Elf64_Shdr.
pub const SHDR_SIZE: usize = 64;
/// e_phnum if the actual number is in sh_info of section 0.
pub const PN_XNUM: u16 = 0xffff;
/// p_type of a memory segment.
pub const PT_LOAD: u32 = 1;
/// p_type of a note segment.
pub const PT_NOTE: u32 = 4;

/// Maximum number of program headers; each stands for at least a page of memory, and no tool
/// writes more than one per MiB.
const MAX_PROGRAM_HEADERS: u32 = 1 << 24;
/// Maximum size of the notes, which hold the registers of every CPU: about 4 KiB each.
const MAX_NOTES_SIZE: u64 = 64 << 20;
/// e_flags of a core that makedumpfile could not finish (DUMP_ELF_INCOMPLETE, makedumpfile's
/// elf_info.h).
const FLAG_INCOMPLETE: u32 = 1;

/// A range of physical memory and its data in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSegment {
    /// Offset of the data in the file.
    pub file_offset: u64,
    /// Size of the data in the file; the rest up to `memory_size` was excluded.
    pub file_size: u64,
    /// First physical address.
    pub physical: PhysAddr,
    /// First virtual address; 0 if the writer did not know it.
    pub virt: VirtAddr,
    /// Size of the memory range, in bytes.
    pub memory_size: u64,
}

/// The headers of a core file.
#[derive(Clone, Debug)]
pub struct CoreHeaders {
    /// e_machine.
    pub machine: u16,
    /// Byte order.
    pub endian: Endian,
    /// The writer marked the core as unfinished.
    pub incomplete: bool,
    /// The memory segments, in file order.
    pub segments: Vec<LoadSegment>,
    /// A memory segment that is left out, because it goes beyond the last address. kexec-tools
    /// writes one for the kernel image where it cannot find out where that is.
    pub impossible: Option<LoadSegment>,
    /// The notes of all PT_NOTE segments, concatenated.
    pub notes: Vec<u8>,
    /// Offset of the first PT_NOTE segment in the file. Writers of cores write only one.
    pub notes_offset: u64,
}

impl CoreHeaders {
    /// Returns the notes.
    pub fn notes(&self) -> Notes<'_> {
        Notes::new(&self.notes, self.endian, self.notes_offset)
    }

    /// Reads the headers and notes of a core file.
    pub fn read(file: &(impl ReadAt + ?Sized)) -> Result<Self, FormatError> {
        let mut ehdr = [0; EHDR_SIZE];
        file.read_exact_at("the ELF header", 0, &mut ehdr)?;
        let endian = check_identity(&ehdr)?;
        let field16 = |offset| endian.u16(&ehdr, offset).unwrap_or(0);
        let (phentsize, phnum) = (field16(54), field16(56));
        let phoff = endian.u64(&ehdr, 32).unwrap_or(0);
        let count = match phnum {
            PN_XNUM => extended_count(file, endian, &ehdr)?,
            count => u32::from(count),
        };
        if usize::from(phentsize) != PHDR_SIZE {
            return Err(FormatError::unexpected(
                "e_phentsize of the ELF header",
                54,
                PHDR_SIZE.to_string(),
                phentsize.to_string(),
            ));
        }
        if count == 0 || count > MAX_PROGRAM_HEADERS {
            return Err(FormatError::unexpected(
                "the number of program headers",
                56,
                format!("1 to {MAX_PROGRAM_HEADERS}"),
                count.to_string(),
            ));
        }
        let what = "the program headers";
        let in_memory = size_of::<LoadSegment>() as u64;
        let table = file.read_vec_at(what, phoff, u64::from(count) * PHDR_SIZE as u64)?;
        FormatError::check_memory(what, phoff, u64::from(count) * in_memory)?;

        let mut headers = Self {
            machine: field16(18),
            endian,
            incomplete: endian.u32(&ehdr, 48).unwrap_or(0) & FLAG_INCOMPLETE != 0,
            // The upper bound is checked above.
            segments: Vec::with_capacity(count as usize),
            impossible: None,
            notes: Vec::new(),
            notes_offset: 0,
        };
        for (index, phdr) in table.chunks_exact(PHDR_SIZE).enumerate() {
            headers.add(file, phdr, phoff + (index * PHDR_SIZE) as u64)?;
        }
        if headers.segments.is_empty() {
            return Err(FormatError::unexpected(
                "the program headers",
                phoff,
                "at least one PT_LOAD segment",
                "none",
            ));
        }
        Ok(headers)
    }

    fn add(
        &mut self,
        file: &(impl ReadAt + ?Sized),
        phdr: &[u8],
        at: u64,
    ) -> Result<(), FormatError> {
        let field = |offset| self.endian.u64(phdr, offset).unwrap_or(0);
        match self.endian.u32(phdr, 0).unwrap_or(0) {
            PT_LOAD => {
                let segment = LoadSegment {
                    file_offset: field(8),
                    file_size: field(32),
                    physical: PhysAddr(field(24)),
                    virt: VirtAddr(field(16)),
                    memory_size: field(40).max(field(32)),
                };
                // Mappings of /proc/kcore that are not RAM have the physical address -1
                // (fs/proc/kcore.c).
                if segment.physical.0 == u64::MAX {
                    return Ok(());
                }
                let end = segment.physical.0.checked_add(segment.memory_size);
                if end.is_none() {
                    self.impossible.get_or_insert(segment);
                    return Ok(());
                }
                let end = segment.file_offset.checked_add(segment.file_size);
                if end.is_none() {
                    return Err(FormatError::unexpected(
                        "a PT_LOAD program header",
                        at,
                        "an end of its data below 2^64",
                        format!("{segment:x?}"),
                    ));
                }
                if segment.memory_size > 0 {
                    self.segments.push(segment);
                }
            }
            PT_NOTE => {
                let (offset, size) = (field(8), field(32));
                if size > MAX_NOTES_SIZE - (self.notes.len() as u64).min(MAX_NOTES_SIZE) {
                    return Err(FormatError::unexpected(
                        "the size of the note segment",
                        at + 32,
                        format!("at most {MAX_NOTES_SIZE} bytes"),
                        size.to_string(),
                    ));
                }
                if self.notes.is_empty() {
                    self.notes_offset = offset;
                }
                self.notes
                    .extend(file.read_vec_at("the notes", offset, size)?);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Checks e_ident and e_type; returns the byte order.
fn check_identity(ehdr: &[u8; EHDR_SIZE]) -> Result<Endian, FormatError> {
    let unexpected = |what, offset: usize, expected: &str| {
        FormatError::unexpected(
            what,
            offset as u64,
            expected,
            format!("{:#x}", ehdr[offset]),
        )
    };
    if ehdr[..4] != SIGNATURE {
        return Err(FormatError::unexpected(
            "the signature",
            0,
            "ELF",
            format!("{:x?}", &ehdr[..4]),
        ));
    }
    if ehdr[4] != 2 {
        return Err(unexpected("the ELF class", 4, "2 (64 bits)"));
    }
    let endian = match ehdr[5] {
        1 => Endian::Little,
        2 => Endian::Big,
        _ => return Err(unexpected("the ELF byte order", 5, "1 or 2")),
    };
    match endian.u16(ehdr, 16) {
        Some(4) => Ok(endian),
        _ => Err(unexpected("the ELF type", 16, "4 (core file)")),
    }
}

/// Returns the number of program headers if it does not fit into e_phnum.
fn extended_count(
    file: &(impl ReadAt + ?Sized),
    endian: Endian,
    ehdr: &[u8; EHDR_SIZE],
) -> Result<u32, FormatError> {
    let shoff = endian.u64(ehdr, 40).unwrap_or(0);
    if shoff == 0 {
        return Err(FormatError::unexpected(
            "e_shoff of the ELF header",
            40,
            "section 0, which holds the number of program headers",
            "0",
        ));
    }
    let section = file.read_vec_at("section header 0", shoff, SHDR_SIZE as u64)?;
    Ok(endian.u32(&section, 44).unwrap_or(0))
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
