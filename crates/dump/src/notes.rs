//! The notes of the output.

use std::ops::Range;

use bigiron_format::bytes::Endian;
use bigiron_format::elf::note::{self, Notes};
use bigiron_kernel::Kernel;

/// Notes, and where VMCOREINFO's text is in them.
#[derive(Clone, Debug)]
pub struct OutputNotes {
    /// The notes.
    pub bytes: Vec<u8>,
    /// The text in them.
    pub vmcoreinfo: Range<usize>,
    /// CPUs whose registers are in them.
    pub cpus: usize,
}

/// The source's notes. VMCOREINFO is added where the source has none or
/// another one, so that readers find what the dump was made by.
pub fn output_notes(kernel: &Kernel) -> OutputNotes {
    let endian = kernel.source().endian();
    let mut bytes = kernel.source().notes().to_vec();
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
    let cpus = Notes::new(&bytes, endian).cpu_count();
    OutputNotes {
        bytes,
        vmcoreinfo,
        cpus,
    }
}

fn find(bytes: &[u8], endian: Endian) -> Option<Range<usize>> {
    let note = Notes::new(bytes, endian).vmcoreinfo()?;
    Some(note.descriptor_offset..note.descriptor_offset + note.descriptor.len())
}
