//! Any bytes as an ELF core: headers, notes, and every page they promise.
#![no_main]

use bigiron_format::elf::{CoreHeaders, Notes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(headers) = CoreHeaders::read(data) {
        let notes = Notes::new(&headers.notes, headers.endian);
        if let Some(note) = notes.vmcoreinfo() {
            let end = note.descriptor_offset + note.descriptor.len();
            assert_eq!(&headers.notes[note.descriptor_offset..end], note.descriptor);
        }
        Notes::new(&headers.notes, headers.endian).cpu_count();
    }
    if let Ok(source) = bigiron_fuzz::open(data.to_vec()) {
        bigiron_fuzz::read_pages(source.memory());
    }
});
