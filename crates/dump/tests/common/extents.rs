//! Dumps, with the extents of the file that each of their pages needs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use bigiron_dump::{DumpOptions, DumpOutput, Format, OutputTarget, Progress, dump};
use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::ReadAt;
use bigiron_format::codec::Compression;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders, PageDescriptor};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES, Source};
use bigiron_synth::{ElfShape, Machine};

const PAGE: usize = 4096;

/// A dump, and the extents of the file that each page needs.
pub struct Dump {
    pub bytes: Vec<u8>,
    pub pages: BTreeMap<u64, Vec<Range<u64>>>,
    /// Where headers and bitmaps end.
    pub headers_end: u64,
}

impl Dump {
    /// An ELF core.
    pub fn elf(machine: &Machine, shape: &ElfShape) -> Self {
        let image = machine.elf_image(shape);
        let mut pages = BTreeMap::new();
        for load in &image.loads {
            for (index, at) in load.data.clone().step_by(PAGE).enumerate() {
                let frame = load.paddr / PAGE as u64 + index as u64;
                let extent = at as u64..(at + PAGE) as u64;
                pages.insert(frame, vec![extent]);
            }
        }
        let starts = image.loads.iter().map(|load| load.data.start);
        Self {
            headers_end: starts.min().unwrap() as u64,
            bytes: image.bytes,
            pages,
        }
    }

    /// A kdump-compressed dump.
    pub fn kdump(machine: &Machine, compression: Compression) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dump");
        let source = open(Box::new(machine.elf(&ElfShape::vmcore())));
        let kernel = Kernel::find(&source, None, IoMethod::Read, 64).unwrap();
        let format = Format::kdump(compression);
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
        Self {
            bytes,
            pages,
            headers_end: headers.layout.descriptors(),
        }
    }

    /// The pages with bytes in one of the ranges `bad`.
    pub fn hit(&self, bad: &[Range<u64>]) -> Vec<u64> {
        let is_hit = |extent: &Range<u64>| {
            let mut bad = bad.iter();
            bad.any(|bad| bad.start < extent.end && extent.start < bad.end)
        };
        let pages = self.pages.iter();
        let hit = pages.filter(|(_, extents)| extents.iter().any(is_hit));
        hit.map(|(frame, _)| *frame).collect()
    }
}

/// Opens a dump.
pub fn open(bytes: Box<dyn ReadAt>) -> Source {
    Source::from_bytes(bytes, PathBuf::from("dump")).unwrap()
}

/// Returns the sections that the source has, with the pages that are in it.
pub fn sections(source: &Source) -> Vec<(PageFrame, Bitmap)> {
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
