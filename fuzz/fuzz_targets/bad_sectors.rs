//! Good dumps on a disk that fails: each page is read as it is, or it is an error; of a vmdump
//! whose headers can be read, every page outside of the bad sectors is read.
#![no_main]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use bigiron_format::{PageFrame, ReadAt};
use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::failing::{Failing, Faults};
use bigiron_fuzz::limits::{DUMP_MEMORY, Metered, within};
use bigiron_fuzz::naive_vmdump::NaiveVmdump;
use bigiron_fuzz::{made_kdump, present_frames};
use bigiron_kernel::{IoMethod, Source};
use bigiron_synth::{ElfShape, Synth};
use libfuzzer_sys::fuzz_target;

const ZSTD: &[u8] = include_bytes!("../../crates/dump/tests/golden/version-1.zstd.vmdump");
const BZIP2: &[u8] = include_bytes!("../../crates/dump/tests/golden/version-1.bzip2.vmdump");
const STRIPES: [&[u8]; 2] = [
    include_bytes!("../../crates/dump/tests/golden/version-1.stripe-1-of-2.vmdump"),
    include_bytes!("../../crates/dump/tests/golden/version-1.stripe-2-of-2.vmdump"),
];

/// Most pages that are read per input: each needs the whole chunk.
const SOME: usize = 32;

struct Good {
    parts: Vec<Vec<u8>>,
    pages: HashMap<u64, Vec<u8>>,
    /// For the container that the simple reader reads.
    naive: Option<NaiveVmdump>,
}

static GOOD: LazyLock<Vec<Good>> = LazyLock::new(|| {
    let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x8ff\npages 0x400 slab n=64 fill=random";
    let machine = Synth::from_text(text).expect("a legal text");
    // Neither split nor incomplete; all pages are RAM and dumped.
    let whole_kdump = [[0x80; 3].as_slice(), &[0xff, 0].repeat(12)].concat();
    let parts = [
        vec![ZSTD.to_vec()],
        // Without an index: the chunks are found by a walk from header to header.
        vec![ZSTD[..ZSTD.len() / 2].to_vec()],
        STRIPES.map(<[u8]>::to_vec).to_vec(),
        vec![made_kdump::encode(&mut Choices(&whole_kdump))],
        vec![machine.elf(&ElfShape::vmcore())],
        vec![BZIP2.to_vec()],
    ];
    let good = |parts: Vec<Vec<u8>>| {
        let source = opened(&parts, &Faults::default()).expect("a good one");
        let frames = present_frames(source.memory());
        let mut reader = source.memory().reader(IoMethod::Read);
        let page = |frame: u64| {
            let page = reader.pages(PageFrame(frame), 1).expect("a page");
            (frame, page.to_vec())
        };
        let pages = frames.into_iter().map(page).collect();
        let is_zstd = ZSTD.starts_with(&parts[0]);
        let naive = is_zstd.then(|| NaiveVmdump::read(&parts[0]).expect("a good one"));
        Good {
            parts,
            pages,
            naive,
        }
    };
    parts.into_iter().map(good).collect()
});

/// Opens a dump whose first part is on the disk that fails.
fn opened(parts: &[Vec<u8>], faults: &Faults) -> Option<Source> {
    let named = parts.iter().enumerate().map(|(number, bytes)| {
        let faults = match number {
            0 => faults.clone(),
            _ => Faults::default(),
        };
        let file = Metered::new(Failing::new(bytes.clone(), faults));
        let file: Box<dyn ReadAt> = Box::new(file);
        (file, PathBuf::from(format!("part{number}")))
    });
    Source::from_several(named.collect()).ok()
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    // bzip2 takes a hundred times as long.
    let number = match choices.byte() {
        byte @ ..250 => usize::from(byte) % (GOOD.len() - 1),
        _ => GOOD.len() - 1,
    };
    let good = &GOOD[number];
    let size = good.parts[0].len();
    let faults = Faults::choose(&mut choices, size as u64);
    let (first, step) = (choices.below(4096), 1 + good.pages.len() / SOME);
    let wanted = |frame: &u64| *frame as usize % step == first % step;
    within(DUMP_MEMORY, size, || {
        let Some(source) = opened(&good.parts, &faults) else {
            let headers = good.naive.as_ref().map(|naive| &naive.headers);
            let fault = headers.is_none_or(|headers| faults.hit(headers));
            assert!(
                fault || faults.every != 0,
                "refused for a sector behind its headers"
            );
            return;
        };
        let mut reader = source.memory().reader(IoMethod::Read);
        let mut read = 0;
        for frame in present_frames(source.memory()).into_iter().filter(wanted) {
            if let Ok(page) = reader.pages(PageFrame(frame), 1) {
                assert!(page == good.pages[&frame], "page frame {frame:#x} differs");
                read += 1;
            }
        }
        let Some(naive) = good.naive.as_ref().filter(|_| faults.every == 0) else {
            return;
        };
        if faults.hit(&naive.headers) {
            return;
        }
        let sound = |frame: &&u64| naive.copies(**frame).any(|copy| !faults.hit(&copy.extent));
        let expected = good
            .pages
            .keys()
            .filter(|frame| wanted(frame))
            .filter(sound)
            .count();
        assert!(
            read >= expected,
            "{read} pages are read, {expected} could be"
        );
    });
});
