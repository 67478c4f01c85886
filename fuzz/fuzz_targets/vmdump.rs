//! Arbitrary bytes as a vmdump; or a valid vmdump with modified bytes and corrected checksums,
//! so that the code behind the checksums is reached. Every page is read as a page or as an
//! error, and the whole file is checked.
#![no_main]

use std::sync::OnceLock;

use bigiron_format::vmdump::{Container, VmdumpFile, check};
use bigiron_fuzz::limits::Metered;
use bigiron_fuzz::vmdump_edits::{patched, records};
use libfuzzer_sys::fuzz_target;

const GOOD: &[u8] = include_bytes!("../../crates/dump/tests/golden/version-1.zstd.vmdump");

fuzz_target!(|data: &[u8]| {
    static RECORDS: OnceLock<Vec<(usize, usize)>> = OnceLock::new();
    let bytes = match data.split_first() {
        Some((0, rest)) => rest.to_vec(),
        Some((_, rest)) => patched(GOOD, RECORDS.get_or_init(|| records(GOOD)), rest),
        None => return,
    };
    if let Ok(file) = VmdumpFile::open(Box::new(Metered::new(bytes.clone()))) {
        let _ = check::check(&file);
        assert!(matches!(
            file.header().container,
            Container::Zstd | Container::Bzip2
        ));
    }
    bigiron_fuzz::check_dump(&bytes);
});
