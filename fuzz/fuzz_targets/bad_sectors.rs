//! Good dumps on a disk that fails, read in runs as a dump of them does: each page is read as it
//! is, or it is an error. Where only sectors fail, exactly the pages with bytes in them are lost
//! of an ELF core and of a kdump-compressed dump, and no others of a vmdump.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;

use bigiron_format::codec::{Codec, Compression};
use bigiron_format::{PageFrame, ReadAt};
use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::extents::Dump;
use bigiron_fuzz::failing::{Failing, Faults, SECTOR};
use bigiron_fuzz::limits::{DUMP_MEMORY, Metered, within};
use bigiron_fuzz::naive_vmdump::NaiveVmdump;
use bigiron_fuzz::present_frames;
use bigiron_kernel::{IoMethod, Source};
use bigiron_synth::{ElfShape, Synth};
use libfuzzer_sys::fuzz_target;

const ZSTD: &[u8] = include_bytes!("../../crates/dump/tests/golden/version-1.zstd.vmdump");
const BZIP2: &[u8] = include_bytes!("../../crates/dump/tests/golden/version-1.bzip2.vmdump");
const STRIPES: [&[u8]; 2] = [
    include_bytes!("../../crates/dump/tests/golden/version-1.stripe-1-of-2.vmdump"),
    include_bytes!("../../crates/dump/tests/golden/version-1.stripe-2-of-2.vmdump"),
];
const PAGE: usize = 4096;

/// Most pages that are read per input: each of a vmdump needs the whole chunk.
const SOME: usize = 256;
/// Most pages that are read at once.
const RUN: usize = 64;

/// A dump, and what is known about it by other means than the reader.
struct Good {
    parts: Vec<Vec<u8>>,
    pages: BTreeMap<u64, Vec<u8>>,
    losses: Losses,
}

/// How the pages that bad sectors cost are known.
enum Losses {
    /// Each page with bytes in a bad sector is lost, and no other.
    Exact(Dump),
    /// Each page with a chunk outside of bad sectors is read.
    AtMost(NaiveVmdump),
    /// They are not.
    Unknown,
}

impl Losses {
    /// Returns true if a bad sector is in what is needed to open the dump.
    fn hit_headers(&self, faults: &Faults) -> bool {
        match self {
            Self::Exact(dump) => faults.hit(&(0..dump.headers_end)),
            Self::AtMost(naive) => faults.hit(&naive.headers),
            Self::Unknown => true,
        }
    }
}

static GOOD: LazyLock<Vec<Good>> = LazyLock::new(|| {
    let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x8ff\npages 0x400 slab n=64 fill=random";
    let machine = Synth::from_text(text).expect("a legal text");
    let kdump = |codec| Dump::kdump(&machine, Compression::new(codec));
    let exact = |dump: Dump| (vec![dump.bytes.clone()], Losses::Exact(dump));
    let vmdump = |bytes: &[u8]| {
        let naive = NaiveVmdump::read(bytes).expect("a good one");
        (vec![bytes.to_vec()], Losses::AtMost(naive))
    };
    let all = [
        vmdump(ZSTD),
        // Without an index: the chunks are found by a walk from header to header.
        vmdump(&ZSTD[..ZSTD.len() / 2]),
        exact(Dump::elf(&machine, &ElfShape::vmcore())),
        // Pages that are not aligned to sectors.
        exact(Dump::elf(&machine, &ElfShape::qemu())),
        exact(kdump(Codec::None)),
        exact(kdump(Codec::Zstd)),
        (STRIPES.map(<[u8]>::to_vec).to_vec(), Losses::Unknown),
        (vec![BZIP2.to_vec()], Losses::Unknown),
    ];
    all.into_iter()
        .map(|(parts, losses)| {
            let source = opened(&parts, &Faults::default()).expect("a good one");
            let mut reader = source.memory().reader(IoMethod::Read);
            let frames = present_frames(source.memory()).into_iter();
            let pages = frames.map(|frame| {
                let page = reader.pages(PageFrame(frame), 1).expect("a page");
                (frame, page.to_vec())
            });
            let pages = pages.collect();
            Good {
                parts,
                pages,
                losses,
            }
        })
        .collect()
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

/// Reads the pages `frames`, which are in order, in runs of at most `run` pages; returns those
/// that can be read.
fn read(good: &Good, source: &Source, frames: &[u64], run: usize) -> BTreeSet<u64> {
    let mut reader = source.memory().reader(IoMethod::Read);
    let mut read = BTreeSet::new();
    let mut rest = frames;
    while let Some(first) = rest.first() {
        let next = rest.iter().zip(*first..).take(run);
        let len = next.take_while(|(frame, next)| **frame == *next).count();
        let count = match reader.pages(PageFrame(*first), len) {
            Ok(pages) => {
                for (frame, page) in (*first..).zip(pages.chunks_exact(PAGE)) {
                    assert!(page == good.pages[&frame], "page frame {frame:#x} differs");
                    read.insert(frame);
                }
                pages.len() / PAGE
            }
            Err(_) => 1,
        };
        assert!((1..=len).contains(&count), "{count} pages of {len}");
        rest = &rest[count..];
    }
    read
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
    let frames: Vec<u64> = good.pages.keys().copied().collect();
    let first = choices.below(frames.len());
    let run = 1 + choices.below(RUN);
    let some = if number == GOOD.len() - 1 { 4 } else { SOME };
    let frames = &frames[first..(first + some).min(frames.len())];
    within(DUMP_MEMORY, size, || {
        let hit_headers = faults.every != 0 || good.losses.hit_headers(&faults);
        let Some(source) = opened(&good.parts, &faults) else {
            assert!(hit_headers, "refused for a sector behind its headers");
            return;
        };
        let present: BTreeSet<u64> = present_frames(source.memory()).into_iter().collect();
        let wanted: Vec<u64> = frames
            .iter()
            .copied()
            .filter(|frame| present.contains(frame))
            .collect();
        let read = read(good, &source, &wanted, run);
        if hit_headers {
            return;
        }
        match &good.losses {
            Losses::Exact(dump) => {
                let bad = faults.sectors.iter();
                let bad: Vec<_> = bad
                    .map(|bad| bad.start * SECTOR..bad.end * SECTOR)
                    .collect();
                let lost: BTreeSet<u64> = dump.hit(&bad).into_iter().collect();
                for frame in frames {
                    let is_read = read.contains(frame);
                    assert!(is_read != lost.contains(frame), "{frame:#x}: {is_read}");
                }
            }
            Losses::AtMost(naive) => {
                for frame in frames {
                    let sound = naive.copies(*frame).any(|copy| !faults.hit(&copy.extent));
                    assert!(!sound || read.contains(frame), "{frame:#x} is not read");
                }
            }
            Losses::Unknown => {}
        }
    });
});
