//! vmdumps of records with valid checksums and arbitrary fields, in any order: each page that
//! is read is one that a simple reader finds at its place, and no more is read and allocated
//! than is in proportion to the dump.
#![no_main]

use std::sync::LazyLock;

use bigiron_format::PageFrame;
use bigiron_format::vmdump::{VmdumpFile, check};
use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::limits::{DUMP_MEMORY, Metered, within};
use bigiron_fuzz::naive_vmdump::NaiveVmdump;
use bigiron_fuzz::{made_vmdump, open, present_frames};
use bigiron_kernel::IoMethod;
use libfuzzer_sys::fuzz_target;

const GOOD: &[u8] = include_bytes!("../../crates/dump/tests/golden/version-1.zstd.vmdump");

/// Header and ELF headers of a good dump.
static PREFIX: LazyLock<&[u8]> = LazyLock::new(|| {
    let naive = NaiveVmdump::read(&GOOD[..64 << 10]).expect("a good one");
    &GOOD[..naive.headers.end as usize]
});

fuzz_target!(|data: &[u8]| {
    let file = made_vmdump::encode(&mut Choices(data), &PREFIX);
    let naive = NaiveVmdump::read(&file).expect("a sound header");
    within(DUMP_MEMORY, file.len(), || {
        if let Ok(dump) = VmdumpFile::open(Box::new(Metered::new(file.clone()))) {
            let _ = check::check(&dump);
        }
        let Ok(source) = open(file.clone()) else {
            return;
        };
        let mut reader = source.memory().reader(IoMethod::Read);
        for frame in present_frames(source.memory()) {
            let Ok(page) = reader.pages(PageFrame(frame), 1) else {
                continue;
            };
            let mut copies = naive.copies(frame);
            let found = copies.any(|copy| copy.bytes.as_deref() == Some(page));
            assert!(found, "page frame {frame:#x} is at no such place");
        }
    });
});
