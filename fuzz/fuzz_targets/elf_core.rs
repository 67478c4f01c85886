//! Arbitrary bytes as an ELF core: headers, notes, and every page that they promise.
#![no_main]

use bigiron_format::elf::CoreHeaders;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(headers) = CoreHeaders::read(data) {
        let notes = headers.notes();
        if let Ok(Some(note)) = notes.clone().vmcoreinfo() {
            let end = note.desc_offset + note.desc.len();
            assert_eq!(&headers.notes[note.desc_offset..end], note.desc);
        }
        notes.clone().cpu_count();
        notes.damage();
    }
    bigiron_fuzz::check_dump(data);
});
