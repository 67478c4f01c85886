//! Dumps without the struct pages of excluded page frames.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use bigiron_dump::{
    ChunkCompression, DumpOptions, DumpOutput, Format, PageCompression, Progress, Reference,
    Summary, ZstdChunks, dump, verify,
};
use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::codec::Compression;
use bigiron_helpers::Stop;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::{IoMethod, Kernel, MemorySource, SECTION_FRAMES, Source};
use bigiron_synth::{ElfShape, Synth};

/// Machines whose memory map has pages of excluded frames only, of kept ones only, and of both.
const MACHINES: [&str; 4] = [
    "kernel 6.12
     ram 0x0-0x9f 0x100-0x3fff
     pages 0x1000 free order=10 n=4 ; 0x2000 anon n=1023 ; 0x2400 slab n=3
     pages 0x2800 hugetlb ; 0x3000 cache n=2048 fill=random:3",
    "kernel 6.1 vmemmap_leaf=4k
     ram 0x0-0x9f 0x100-0x3fff
     pages 0x1000 free order=10 n=4 ; 0x2000 thp n=4 ; 0x2a10 anon n=300",
    "kernel 7.1 vmemmap_leaf=4k
     ram 0x0-0x9f 0x100-0x3fff
     pages 0x1000 free order=10 n=4 ; 0x2000 hugetlb hvo n=4 ; 0x3000 slab n=4",
    "arch arm64 pages=64k
     kernel 6.12
     ram 0x0-0x17f 0x2000-0x223f
     pages 0x2000 free order=9 ; 0x2200 anon n=64",
];

fn open(bytes: Vec<u8>) -> Source {
    Source::from_bytes(Box::new(bytes), PathBuf::from("dump")).unwrap()
}

fn formats() -> [Format; 4] {
    let kdump = |flattened| Format::Kdump {
        compression: PageCompression::Fixed("zstd".parse::<Compression>().unwrap()),
        flattened,
    };
    let chunks = ChunkCompression::Zstd(ZstdChunks {
        level: 1,
        bytes: 64 << 10,
    });
    let elf = Format::Elf { flattened: false };
    [kdump(false), kdump(true), elf, Format::Vmdump(chunks)]
}

/// Returns the bytes and the summary of a dump of `source`.
fn dump_of(source: &Source, format: Format, without_struct_pages: bool) -> (Vec<u8>, Summary) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump");
    let kernel = Kernel::find(source, None, IoMethod::Auto, 64).unwrap();
    let options = DumpOptions {
        threads: 2,
        without_struct_pages,
        ..DumpOptions::default()
    };
    let output = DumpOutput::file(format, path.clone());
    let (progress, stop) = (Progress::new(), Stop::new());
    let summary = dump(&kernel.into(), &output, &options, &progress, &stop).unwrap();
    (std::fs::read(path).unwrap(), summary)
}

/// Returns the page frames that `source` has.
fn present(source: &dyn MemorySource) -> Vec<bool> {
    let mut all = Vec::new();
    for first in source.sections() {
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        source.present(first, &mut bits).unwrap();
        all.resize(first.0 as usize, false);
        all.extend((0..bits.len()).map(|bit| bits.get(bit)));
    }
    all
}

/// Returns the page frames with struct pages, and whether any of those is of a frame in `kept`.
fn map_pages(source: &Source, kept: &[bool]) -> BTreeMap<u64, bool> {
    let kernel = Kernel::find(source, None, IoMethod::Auto, 64).unwrap();
    let map = MemMap::find(&kernel).unwrap();
    let shift = source.memory().page_shift();
    let mut pages = BTreeMap::new();
    for frame in 0..kept.len().next_multiple_of(1 << map.frames_shift()) {
        let is_kept = kept.get(frame).copied().unwrap_or(false);
        let section = frame as u64 >> map.frames_shift();
        let Some(decoded) = map.section(&kernel, section).unwrap() else {
            continue;
        };
        let first = map.page_struct(decoded, PageFrame(frame as u64));
        let last = first.checked_add(map.page_struct_size() - 1).unwrap();
        for address in [first, last] {
            if let Some(leaf) = kernel.translate(address).unwrap() {
                *pages.entry(leaf.physical.0 >> shift).or_insert(false) |= is_kept;
            }
        }
    }
    pages
}

#[test]
fn struct_pages_of_excluded_frames_are_left_out_and_all_others_kept() {
    for text in MACHINES {
        let machine = Synth::from_text(text).unwrap();
        let source = open(machine.elf(&ElfShape::vmcore()));
        for format in formats() {
            let (whole, _) = dump_of(&source, format, false);
            let (small, summary) = dump_of(&source, format, true);
            let (whole, small) = (open(whole), open(small));
            assert!(!whole.memory().lacks_struct_pages());
            assert!(small.memory().lacks_struct_pages());
            let (before, after) = (present(whole.memory()), present(small.memory()));
            // Zero pages are no part of an ELF core, whatever they are used for.
            let mut kept: Vec<_> = (0..before.len() as u64).map(|_| true).collect();
            let expected = machine.expected_dumpable(30);
            kept.truncate(expected.len());
            kept.copy_from_slice(&expected);
            let pages = map_pages(&source, &kept);
            let mut left_out = 0;
            for (frame, was) in before.iter().enumerate() {
                let is = after.get(frame).copied().unwrap_or(false);
                let needed = pages.get(&(frame as u64)).copied();
                assert!(*was || !is, "page frame {frame:#x} appears");
                if *was && !is {
                    assert_eq!(needed, Some(false), "page frame {frame:#x} of {text}");
                    left_out += 1;
                }
            }
            assert!(left_out > 0 && summary.excluded.struct_pages >= left_out);
            let vacant = pages.values().filter(|needed| !**needed).count() as u64;
            // Those that all tails of a huge page share may stay.
            assert!(summary.excluded.struct_pages + 16 >= vacant, "{text}");
            assert!(summary.excluded.struct_pages <= vacant, "{text}");
        }
    }
}

#[test]
fn dump_without_struct_pages_verifies_and_is_filtered_to_the_same_pages_again() {
    for text in MACHINES {
        let source = open(Synth::from_text(text).unwrap().elf(&ElfShape::vmcore()));
        for format in formats() {
            let small = open(dump_of(&source, format, true).0);
            let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
            let reference = Reference::new(source.memory(), small.memory(), Ok(&kernel));
            let (progress, stop) = (Progress::new(), Stop::new());
            let found = verify(small.memory(), Some(&reference), 2, &progress, &stop).unwrap();
            assert_eq!((found.missing, found.lost, found.damaged), (0, 0, 0));
            let (again, summary) = dump_of(&small, format, false);
            assert_eq!(summary.warnings, Vec::<String>::new());
            let again = open(again);
            assert_eq!(present(again.memory()), present(small.memory()), "{text}");
            assert!(again.memory().lacks_struct_pages());
        }
    }
}

#[test]
fn struct_pages_of_a_dump_that_has_them_all_can_be_left_out_later() {
    let source = open(
        Synth::from_text(MACHINES[0])
            .unwrap()
            .elf(&ElfShape::vmcore()),
    );
    let [kdump, ..] = formats();
    let at_once = open(dump_of(&source, kdump, true).0);
    let whole = open(dump_of(&source, kdump, false).0);
    let later = open(dump_of(&whole, kdump, true).0);
    assert_eq!(present(later.memory()), present(at_once.memory()));
}
