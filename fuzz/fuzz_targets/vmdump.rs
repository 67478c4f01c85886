//! Any bytes as a vmdump; or a good one with other bytes in some places, and
//! checksums made right again, so that what they guard is tried too. Every page
//! is read, all of the file checked, and none is anything but a page or an error.
#![no_main]

use std::sync::OnceLock;

use bigiron_format::vmdump::codec::checksum;
use bigiron_format::vmdump::{Container, VmdumpFile, check, record};
use libfuzzer_sys::fuzz_target;

const GOOD: &[u8] = include_bytes!("../../crates/dump/tests/golden/version-1.zstd.vmdump");

/// Where the records of the good one are, with their skippable frames.
fn records() -> &'static [(usize, usize)] {
    static RECORDS: OnceLock<Vec<(usize, usize)>> = OnceLock::new();
    RECORDS.get_or_init(|| {
        let file = VmdumpFile::open(Box::new(GOOD.to_vec())).expect("a good one");
        let chunks = (0..file.pieces()).flat_map(|piece| file.chunks(piece).expect("an index"));
        let mut offsets: Vec<u64> = chunks.map(|chunk| chunk.offset).collect();
        let root = file.root().expect("a root");
        offsets
            .extend((0..file.pieces()).filter_map(|piece| Some(file.index_place(piece)?.offset)));
        offsets.extend([0, root.directory.offset, root.metadata.offset]);
        offsets.push(root.metadata.offset + root.metadata.size);
        let place = |offset: u64| {
            let offset = offset as usize;
            let len = record::skippable_len(&GOOD[offset..]).expect("a record") as usize;
            (offset, len)
        };
        offsets.into_iter().map(place).collect()
    })
}

fuzz_target!(|data: &[u8]| {
    let bytes = match data.split_first() {
        Some((0, rest)) => rest.to_vec(),
        Some((_, rest)) => patched(rest),
        None => return,
    };
    if let Ok(file) = VmdumpFile::open(Box::new(bytes.clone())) {
        let _ = check::check(&file);
        assert!(matches!(
            file.header().container,
            Container::Zstd | Container::Bzip2
        ));
    }
    if let Ok(source) = bigiron_fuzz::open(bytes) {
        bigiron_fuzz::read_pages(source.memory());
    }
});

/// Each eight bytes of `edits`: which record, where in it, and four new bytes.
fn patched(edits: &[u8]) -> Vec<u8> {
    let mut bytes = GOOD.to_vec();
    let records = records();
    for edit in edits.chunks_exact(8).take(16) {
        let number = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
        // The last ones are index, directory, metadata and root.
        let (offset, len) = records[records.len() - 1 - number % records.len()];
        let inside = usize::from(u16::from_le_bytes([edit[2], edit[3]])) % (len - 8);
        let at = offset + inside.max(8);
        let room = (offset + len - 8).saturating_sub(at).min(4);
        bytes[at..at + room].copy_from_slice(&edit[4..4 + room]);
        let end = offset + len - 8;
        let sum = checksum(&bytes[offset + 8..end]);
        bytes[end..end + 8].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}
