//! The core of a Xen guest, as `xl dump-core` writes it: an ELF core whose memory is in sections
//! (Xen's docs/misc/dump-core-format.txt and tools/libs/ctrl/xc_core.c). The guest is x86-64.
//!
//! docs/formats/xen-core.md has the layout.

mod frames;
mod registers;
mod sections;

use crate::bytes::{Endian, ReadAt};
use crate::elf::machine_frames::MachineFrames;
use crate::elf::{MACHINE_X86_64, Notes};
use crate::error::FormatError;
use crate::image::ImageRanges;
use sections::{PAGE_SIZE, Section, Sections};

pub use sections::is_xen_core;

/// Name and types of the notes.
const NAME: &[u8] = b"Xen";
const HEADER_NOTE: u32 = 0x0200_0001;
const VERSION_NOTE: u32 = 0x0200_0003;
/// Magic numbers of the header note.
const PARAVIRTUAL: u64 = 0xf00f_ebed;
const HARDWARE: u64 = 0xf00f_ebee;
/// The version of the format.
const FORMAT_VERSION: u64 = 1;
const MAX_NOTES: u64 = 1 << 20;

/// The core of a guest.
#[derive(Debug)]
pub struct XenCore {
    /// The guest's memory.
    pub ranges: ImageRanges,
    /// The machine's frame of each frame of a paravirtual guest, whose page tables have those of
    /// the machine; `None` for others.
    pub machine_frames: Option<MachineFrames>,
    /// The registers of the CPUs, as notes.
    pub notes: Vec<u8>,
}

/// The header note.
struct Header {
    is_paravirtual: bool,
    pages: u64,
}

impl XenCore {
    /// Reads the headers and the list of page frames.
    pub fn read(file: &dyn ReadAt) -> Result<Self, FormatError> {
        let sections = Sections::read(file)?;
        if sections.machine != MACHINE_X86_64 {
            return Err(FormatError::unexpected(
                "e_machine of the ELF header",
                18,
                format!("{MACHINE_X86_64} (x86-64)"),
                sections.machine.to_string(),
            ));
        }
        let header = header(file, sections.need(".note.Xen")?)?;
        let pages = sections.need(".xen_pages")?;
        let (ranges, machine_frames) = match header.is_paravirtual {
            true => {
                let list = sections.need(".xen_p2m")?;
                let (ranges, frames) = frames::with_machine(file, list, pages, header.pages)?;
                (ranges, Some(frames))
            }
            false => {
                let list = sections.need(".xen_pfn")?;
                (frames::plain(file, list, pages, header.pages)?, None)
            }
        };
        let notes = match sections.find(".xen_prstatus") {
            Some(section) => registers::read(file, section, header.is_paravirtual)?,
            None => Vec::new(),
        };
        Ok(Self {
            ranges,
            machine_frames,
            notes,
        })
    }
}

/// Reads the note that says what kind of guest it is.
fn header(file: &dyn ReadAt, section: &Section) -> Result<Header, FormatError> {
    let at = section.offset;
    if section.size > MAX_NOTES {
        return Err(FormatError::unexpected(
            "the size of .note.Xen",
            at,
            format!("at most {MAX_NOTES}"),
            section.size.to_string(),
        ));
    }
    let bytes = file.read_vec_at("the notes", at, section.size)?;
    let (mut header, mut version) = (None, None);
    for note in Notes::new(&bytes, Endian::Little, at) {
        let note = note?;
        let word = |index: usize| Endian::Little.u64(note.desc, 8 * index);
        match (note.name, note.n_type) {
            (NAME, HEADER_NOTE) => header = Some([word(0), word(1), word(2), word(3)]),
            (NAME, VERSION_NOTE) => version = word(0),
            _ => {}
        }
    }
    if version.is_some_and(|version| version != FORMAT_VERSION) {
        return Err(FormatError::unexpected(
            "the version of the format, in .note.Xen",
            at,
            FORMAT_VERSION.to_string(),
            version.unwrap_or(0).to_string(),
        ));
    }
    let Some([Some(magic), Some(_), Some(pages), Some(page_size)]) = header else {
        let what = "the notes in .note.Xen";
        return Err(FormatError::unexpected(what, at, "the header note", "none"));
    };
    if !matches!(magic, PARAVIRTUAL | HARDWARE) || page_size != PAGE_SIZE {
        return Err(FormatError::unexpected(
            "the header note in .note.Xen",
            at,
            format!("{PARAVIRTUAL:#x} or {HARDWARE:#x}, and pages of {PAGE_SIZE} bytes"),
            format!("{magic:#x}, and pages of {page_size} bytes"),
        ));
    }
    Ok(Header {
        is_paravirtual: magic == PARAVIRTUAL,
        pages,
    })
}
