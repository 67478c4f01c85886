//! The notes of the output.

use std::ops::Range;

use bigiron_format::bytes::Endian;
use bigiron_format::elf::erase_info;
use bigiron_format::elf::note::{self, Notes};
use bigiron_kernel::Kernel;

/// Notes, and the position of VMCOREINFO's text in them.
#[derive(Clone, Debug)]
pub struct OutputNotes {
    /// The notes.
    pub bytes: Vec<u8>,
    /// The text in them.
    pub vmcoreinfo: Range<usize>,
    /// CPUs whose registers are in them.
    pub cpus: usize,
    /// Description of the data erased, now and before: a note of an ELF core, part of the
    /// sub-header of a kdump-compressed dump.
    pub erase_info: Vec<u8>,
}

/// Returns the source's notes. VMCOREINFO is added if the source has none or a different one,
/// so that readers find the one used for the dump. `for_elf`: the notes go into an ELF core.
pub fn output_notes(kernel: &Kernel, for_elf: bool) -> OutputNotes {
    let endian = kernel.source().endian();
    let own = kernel.source().notes();
    let mut bytes = note::without_snap(own.clone());
    if let Some(task) = own.live_task()
        && !for_elf
    {
        bytes.extend(note::snap(task, endian));
    }
    let erased = kernel.source().erase_info().to_vec();
    let noted: &[u8] = if for_elf { &erased } else { &[] };
    bytes = erase_info::replace(Notes::new(&bytes, endian, 0), noted);
    let text = kernel.info().text().as_bytes();
    let same = |descriptor: &[u8]| {
        descriptor.starts_with(text) && descriptor[text.len()..].iter().all(|byte| *byte == 0)
    };
    let found = find(&bytes, endian).filter(|range| same(&bytes[range.clone()]));
    let vmcoreinfo = found.unwrap_or_else(|| {
        // Readers take the first one.
        let mut with_ours = note::encode(note::VMCOREINFO, 0, text, endian);
        with_ours.extend_from_slice(&bytes);
        bytes = with_ours;
        find(&bytes, endian).unwrap_or_default()
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
