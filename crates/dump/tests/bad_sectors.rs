//! Dumps on a disk with bad sectors, read in long runs as a dump of them does: the pages that are
//! lost are those with bytes in a bad sector, and no others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "common/extents.rs"]
mod extents;

use std::collections::BTreeMap;

use bigiron_format::PageFrame;
use bigiron_format::codec::{Codec, Compression};
use bigiron_format::failing::Failing;
use bigiron_kernel::{IoMethod, Source};
use bigiron_synth::{ElfShape, Synth};
use extents::{Dump, open, sections};

/// 10 MiB with pages that no codec makes smaller, and others.
const MACHINE: &str = "kernel 6.12
    ram 0x0-0x9f 0x100-0x9ff
    pages 0x400 slab n=300 fill=random
    pages 0x600 slab n=32 fill=zero ; 0x620 slab n=32 fill=const:7";
const PAGE: usize = 4096;
const SECTOR: u64 = 4096;
/// Pages read at once.
const RUN: usize = 64;
/// The first sectors, which have the descriptors of a kdump-compressed dump, and every so many of
/// the others are bad, one at a time.
const FIRST: u64 = 16;
const STEP: u64 = 47;

fn elf(shape: &ElfShape) -> Dump {
    Dump::elf(&Synth::from_text(MACHINE).unwrap(), shape)
}

fn kdump(codec: Codec) -> Dump {
    let machine = Synth::from_text(MACHINE).unwrap();
    Dump::kdump(&machine, Compression::new(codec))
}

/// Reads all pages in runs; returns those that can be read, and those that cannot.
fn read(source: &Source) -> (BTreeMap<u64, Vec<u8>>, Vec<u64>) {
    let mut reader = source.memory().reader(IoMethod::Auto);
    let (mut read, mut lost) = (BTreeMap::new(), Vec::new());
    for (first, present) in sections(source) {
        let mut from = 0;
        while let Some((start, len)) = present.next_run(from, present.len(), RUN) {
            let frame = first.0 + start as u64;
            from = start;
            match reader.pages(PageFrame(frame), len) {
                Ok(pages) => {
                    let pages = pages.chunks_exact(PAGE);
                    from += pages.len();
                    read.extend((frame..).zip(pages.map(<[u8]>::to_vec)));
                }
                Err(error) => {
                    assert!(error.is_one_page(), "{error}");
                    lost.push(frame);
                    from += 1;
                }
            }
        }
    }
    (read, lost)
}

/// Asserts that bad sectors cost only the pages in them.
#[track_caller]
fn loses_only_what_is_hit(dump: &Dump, cache: Option<u64>) {
    let (good, lost) = read(&open(Box::new(dump.bytes.clone())));
    assert_eq!((good.len(), lost.len()), (dump.pages.len(), 0));
    let sectors = dump.headers_end.div_ceil(SECTOR)..dump.bytes.len() as u64 / SECTOR;
    let start = sectors.start;
    let chosen = sectors.filter(|sector| sector - start < FIRST || sector % STEP == 0);
    let counts = 1..4;
    for (sector, count) in chosen.zip(counts.cycle()) {
        let bad = sector * SECTOR..(sector + count) * SECTOR;
        let file = Failing::new(dump.bytes.clone(), vec![bad.clone()]);
        let mut source = open(Box::new(file));
        if let Some(bytes) = cache {
            source.set_cache(bytes);
        }
        let (found, lost) = read(&source);
        assert_eq!(lost, dump.hit(std::slice::from_ref(&bad)), "{bad:x?}");
        assert!(found.iter().all(|(frame, page)| good[frame] == *page));
    }
}

#[test]
fn bad_sector_of_a_core_costs_only_the_pages_in_it() {
    loses_only_what_is_hit(&elf(&ElfShape::vmcore()), None);
    // Pages that are not aligned to sectors.
    loses_only_what_is_hit(&elf(&ElfShape::qemu()), None);
}

#[test]
fn bad_sector_of_a_kdump_file_costs_only_the_pages_whose_descriptor_or_data_is_in_it() {
    for codec in [Codec::None, Codec::Zstd] {
        let dump = kdump(codec);
        loses_only_what_is_hit(&dump, None);
        loses_only_what_is_hit(&dump, Some(16 << 20));
    }
}
