//! Dumps on a disk with bad sectors, read in long runs as a dump of them does: the pages that are
//! lost are those with bytes in a bad sector, and no others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use bigiron_dump::{DumpOptions, DumpOutput, Format, OutputTarget, Progress, dump};
use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::ReadAt;
use bigiron_format::codec::{Codec, Compression};
use bigiron_format::failing::Failing;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders, PageDescriptor};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES, Source};
use bigiron_synth::{ElfShape, Synth};

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

/// A dump, and the extents of the file that each page needs.
struct Dump {
    bytes: Vec<u8>,
    pages: BTreeMap<u64, Vec<Range<u64>>>,
    /// Where headers and bitmaps end.
    headers_end: u64,
}

impl Dump {
    /// The pages with bytes in `bad`.
    fn hit(&self, bad: &Range<u64>) -> Vec<u64> {
        let is_hit = |extent: &Range<u64>| bad.start < extent.end && extent.start < bad.end;
        let pages = self.pages.iter();
        let hit = pages.filter(|(_, extents)| extents.iter().any(is_hit));
        hit.map(|(frame, _)| *frame).collect()
    }
}

fn elf(shape: &ElfShape) -> Dump {
    let image = Synth::from_text(MACHINE).unwrap().elf_image(shape);
    let mut pages = BTreeMap::new();
    for load in &image.loads {
        for (index, at) in load.data.clone().step_by(PAGE).enumerate() {
            let frame = load.paddr / PAGE as u64 + index as u64;
            let extent = at as u64..(at + PAGE) as u64;
            pages.insert(frame, vec![extent]);
        }
    }
    let start = image
        .loads
        .iter()
        .map(|load| load.data.start)
        .min()
        .unwrap();
    Dump {
        bytes: image.bytes,
        pages,
        headers_end: start as u64,
    }
}

fn kdump(codec: Codec) -> Dump {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump");
    let source = open(Box::new(elf(&ElfShape::vmcore()).bytes));
    let kernel = Kernel::find(&source, None, IoMethod::Read, 64).unwrap();
    let format = Format::kdump(Compression::new(codec));
    let output = DumpOutput::whole(format, OutputTarget::File(path.clone()));
    let (progress, stop) = (Progress::new(), Stop::new());
    let options = DumpOptions::default();
    dump(&kernel.into(), &output, &options, &progress, &stop).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let headers = KdumpHeaders::read(&bytes).unwrap();
    let made = open(Box::new(bytes.clone()));
    let mut pages = BTreeMap::new();
    for (index, frame) in frames(&made).into_iter().enumerate() {
        let at = headers.layout.descriptor(index as u64);
        let descriptor = at..at + DESCRIPTOR_SIZE as u64;
        let stored = &bytes[at as usize..descriptor.end as usize];
        let stored = PageDescriptor::decode(stored, headers.endian).unwrap();
        let data = stored.offset..stored.offset + u64::from(stored.size);
        pages.insert(frame, vec![descriptor, data]);
    }
    Dump {
        bytes,
        pages,
        headers_end: headers.layout.descriptors(),
    }
}

fn open(bytes: Box<dyn ReadAt>) -> Source {
    Source::from_bytes(bytes, PathBuf::from("dump")).unwrap()
}

fn sections(source: &Source) -> Vec<(PageFrame, Bitmap)> {
    let memory = source.memory();
    let sections = memory.sections().map(|first| {
        let mut present = Bitmap::new(SECTION_FRAMES as usize);
        memory.present(first, &mut present).unwrap();
        (first, present)
    });
    sections.collect()
}

/// Returns the page frames that the source has.
fn frames(source: &Source) -> Vec<u64> {
    let sections = sections(source).into_iter();
    let frames = sections.flat_map(|(first, present)| {
        let bits = (0..present.len()).filter(move |bit| present.get(*bit));
        bits.map(move |bit| first.0 + bit as u64)
    });
    frames.collect()
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
        assert_eq!(lost, dump.hit(&bad), "{bad:x?}");
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
