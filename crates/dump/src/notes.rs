//! The notes of the output.

use std::ops::Range;

use bigiron_format::bytes::Endian;
use bigiron_format::elf::dump_level::LeftOut;
use bigiron_format::elf::note::{self, Notes};
use bigiron_format::elf::{dump_level, erase_info};
use bigiron_kernel::MemorySource;

/// The kind of file that notes are written to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NotesGoal {
    /// A dump whose header has fields for the dump level and for what was erased.
    Header,
    /// An ELF core, which has notes for both.
    Elf {
        /// What is left out; `None` if that is unknown.
        left_out: Option<LeftOut>,
    },
}

/// Notes, and the position of VMCOREINFO's text in them.
#[derive(Clone, Debug)]
pub struct OutputNotes {
    /// The notes.
    pub bytes: Vec<u8>,
    /// The text in them; `None` if there is none.
    pub vmcoreinfo: Option<Range<usize>>,
    /// CPUs whose registers are in them.
    pub cpus: usize,
    /// Description of the data erased, now and before: a note of an ELF core, part of the
    /// sub-header of a kdump-compressed dump.
    pub erase_info: Vec<u8>,
}

/// Returns the source's notes. `text` of VMCOREINFO is added if the source has none or a
/// different one, so that readers find the one used for the dump. `goal` is the kind of file that
/// they go into. `rules` are the lines that record rules for pages, behind what was erased.
pub fn output_notes(
    source: &dyn MemorySource,
    text: Option<&[u8]>,
    goal: NotesGoal,
    rules: &str,
) -> OutputNotes {
    let endian = source.endian();
    let own = source.notes();
    let mut bytes = note::without_snap(own.clone());
    if let Some(task) = own.live_task()
        && goal == NotesGoal::Header
    {
        bytes.extend(note::snap(task, endian));
    }
    let mut erased = source.erase_info().to_vec();
    erased.extend_from_slice(rules.as_bytes());
    let (noted, left_out): (&[u8], _) = match goal {
        NotesGoal::Header => (&[], None),
        NotesGoal::Elf { left_out } => (&erased, left_out),
    };
    bytes = erase_info::replace(Notes::new(&bytes, endian, 0), noted);
    bytes = dump_level::replace(Notes::new(&bytes, endian, 0), left_out);
    let vmcoreinfo = text.and_then(|text| {
        let same = |descriptor: &[u8]| {
            descriptor.starts_with(text) && descriptor[text.len()..].iter().all(|byte| *byte == 0)
        };
        let found = find(&bytes, endian).filter(|range| same(&bytes[range.clone()]));
        found.or_else(|| {
            // Readers take the first one.
            let mut with_ours = note::encode(note::VMCOREINFO, 0, text, endian);
            with_ours.extend_from_slice(&bytes);
            bytes = with_ours;
            find(&bytes, endian)
        })
    });
    let cpus = Notes::new(&bytes, endian, 0).cpu_count();
    OutputNotes {
        bytes,
        vmcoreinfo,
        cpus,
        erase_info: erased,
    }
}

fn find(bytes: &[u8], endian: Endian) -> Option<Range<usize>> {
    let note = Notes::new(bytes, endian, 0).vmcoreinfo().ok()??;
    Some(note.desc_offset..note.desc_offset + note.desc.len())
}
