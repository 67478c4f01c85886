//! Arbitrary bytes as a text log: reading it ends, its signature is bounded and printable, and
//! does not depend on the size of the buffer.
#![no_main]

use std::io::BufReader;

use bigiron_inspect::Signature;
use libfuzzer_sys::fuzz_target;

/// As docs/signature.md states.
const MAX_TITLE: usize = 120;
const MAX_FRAMES: usize = 16;

fn signature(log: &[u8], buffer: usize) -> Option<Signature> {
    let mut reader = BufReader::with_capacity(buffer, log);
    Signature::of_text(&mut reader).expect("memory can be read")
}

fuzz_target!(|log: &[u8]| {
    let found = signature(log, 64 << 10);
    assert_eq!(found, signature(log, 7));
    let Some(found) = found else { return };
    assert!(found.frames.len() <= MAX_FRAMES);
    for title in std::iter::once(&found.title).chain(&found.alternative_titles) {
        assert!(title.len() <= MAX_TITLE, "{title}");
        assert!(
            title.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
            "{title}"
        );
    }
    assert_eq!(found.fingerprint.is_none(), found.corrupted);
});
