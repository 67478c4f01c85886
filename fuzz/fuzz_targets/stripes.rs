//! A striped dump of two parts: with modified bytes in the records of both and corrected
//! checksums, truncated, doubled, or with a missing part; or arbitrary bytes as one part. Every
//! page is read, everything is checked, and the core is traversed.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use bigiron_dump::check_vmdump;
use bigiron_format::ReadAt;
use bigiron_format::vmdump::Stretch;
use bigiron_fuzz::limits::Metered;
use bigiron_fuzz::vmdump_edits::{patched, records};
use bigiron_helpers::Stop;
use bigiron_kernel::Source;
use libfuzzer_sys::fuzz_target;

const GOOD: [&[u8]; 2] = [
    include_bytes!("../../crates/dump/tests/golden/version-1.stripe-1-of-2.vmdump"),
    include_bytes!("../../crates/dump/tests/golden/version-1.stripe-2-of-2.vmdump"),
];

// The first byte selects the files, the next two the length of the second part, the next the
// number of edits of the first part.
fuzz_target!(|data: &[u8]| {
    let [form, cut, cut_more, split, edits @ ..] = data else {
        return;
    };
    let (first, second) = edits.split_at((usize::from(*split) * 8).min(edits.len()));
    let (first, mut second) = (part(0, first), part(1, second));
    if form & 8 != 0 {
        let cut = usize::from(u16::from_le_bytes([*cut, *cut_more]));
        second.truncate(second.len() * cut >> 16);
    }
    let parts = match form & 7 {
        0 => vec![first, second],
        1 => vec![second, first],
        2 => vec![second],
        3 => vec![first],
        4 => vec![first, edits.to_vec()],
        5 => vec![edits.to_vec(), second],
        6 => vec![first.clone(), first],
        _ => vec![second.clone(), first, second],
    };
    let named = parts.into_iter().enumerate().map(|(number, bytes)| {
        let bytes: Box<dyn ReadAt> = Box::new(Metered::new(bytes));
        (bytes, PathBuf::from(format!("part{number}")))
    });
    let Ok(source) = Source::from_several(named.collect()) else {
        return;
    };
    bigiron_fuzz::read_pages(source.memory());
    let dump = source.memory().vmdump().expect("a vmdump");
    let _ = check_vmdump(dump, 1, &Stop::new());
    let mut position = 0;
    for stretch in dump.core_order() {
        let (start, end) = match stretch {
            Stretch::Chunk(number, chunk) => {
                assert!(number < dump.parts().len());
                (chunk.position, chunk.end())
            }
            Stretch::Gap(gap) => (gap.start, gap.end),
        };
        assert!(start == position && end > start && end <= dump.header().core_size);
        position = end;
    }
});

fn part(number: usize, edits: &[u8]) -> Vec<u8> {
    static RECORDS: OnceLock<[Vec<(usize, usize)>; 2]> = OnceLock::new();
    let records = RECORDS.get_or_init(|| GOOD.map(records));
    patched(GOOD[number], &records[number], edits)
}
