//! What opening a large vmdump reads, on a sparse one of 100 GB.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bigiron_bench::large_vmdump;
use bigiron_dump::{
    ChunkCompression, CoreView, DumpOptions, DumpOutput, Format, Progress, ZstdChunks, dump,
};
use bigiron_format::ReadAt;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::vmdump::VmdumpFile;
use bigiron_helpers::Stop;
use bigiron_inspect::Overview;
use bigiron_kernel::{
    IoMethod, Kernel, MemorySource, PhysicalMemory, SECTION_FRAMES, Source, VmdumpSource,
};
use bigiron_synth::{ElfShape, Synth};

const MACHINE: &str = "kernel 6.1
    ram 0x0-0x9f 0x100-0x1fff
    pages 0x200 free order=9
    pages 0x500 slab n=32 fill=random
    log lockless n=200";
const SIZE: u64 = 100_000_000_000;
const PAGES: usize = PhysicalMemory::DEFAULT_CACHE_PAGES;

/// The bytes and the number of reads so far.
#[derive(Default)]
struct Counts {
    bytes: AtomicU64,
    reads: AtomicU64,
}

struct Counted(File, Arc<Counts>);

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let count = FileExt::read_at(&self.0, buf, offset)?;
        self.1.bytes.fetch_add(count as u64, Relaxed);
        self.1.reads.fetch_add(1, Relaxed);
        Ok(count)
    }

    fn size(&self) -> u64 {
        self.0.metadata().unwrap().len()
    }
}

/// Makes a small vmdump and the large one; returns their paths.
fn make(directory: &Path) -> [PathBuf; 2] {
    let [core, small, large] = ["core", "small", "large"].map(|name| directory.join(name));
    let machine = Synth::from_text(MACHINE).unwrap();
    fs::write(&core, machine.elf(&ElfShape::vmcore())).unwrap();
    let source = Source::open(&[core]).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, PAGES).unwrap();
    let format = Format::Vmdump(ChunkCompression::Zstd(ZstdChunks::default()));
    let output = DumpOutput::file(format, small.clone());
    let (options, progress) = (DumpOptions::default(), Progress::new());
    dump(&kernel.into(), &output, &options, &progress, &Stop::new()).unwrap();
    let file = VmdumpFile::open(Box::new(fs::read(&small).unwrap())).unwrap();
    large_vmdump::write(&file, SIZE, &File::create_new(&large).unwrap()).unwrap();
    [small, large]
}

/// Opens a vmdump and reads the overview and the start of the core as `info` and `mount` do;
/// returns the pages of RAM and in the dump, and the bytes and reads that it took.
fn open(path: &Path) -> ([u64; 2], [u64; 2]) {
    let counts = Arc::new(Counts::default());
    let file = Counted(File::open(path).unwrap(), Arc::clone(&counts));
    let source = VmdumpSource::new(vec![(Box::new(file), path.to_owned())]).unwrap();
    let kernel = Kernel::find_in(&source, path, None, IoMethod::Auto, PAGES).unwrap();
    let overview = Overview::of(&kernel);
    assert!(overview.crash.is_some(), "{:?}", overview.warnings);
    let core = CoreView::new(&kernel, IoMethod::Auto).unwrap();
    core.read_at(0, &mut vec![0; 1 << 20]).unwrap();
    (
        [
            overview.memory.pages.unwrap(),
            overview.memory.pages_in_dump.unwrap(),
        ],
        [counts.bytes.load(Relaxed), counts.reads.load(Relaxed)],
    )
}

#[test]
fn the_pages_of_info_are_those_of_the_index() {
    let directory = tempfile::tempdir().unwrap();
    let [small, _] = make(directory.path());
    let ([_, stated], _) = open(&small);
    let source = Source::open(&[small]).unwrap();
    let memory: &dyn MemorySource = source.memory();
    let mut present = Bitmap::new(SECTION_FRAMES as usize);
    let counted: u64 = memory
        .sections()
        .map(|first| {
            memory.present(first, &mut present).unwrap();
            present.count()
        })
        .sum();
    assert_eq!(stated, counted);
    assert!(counted > 0);
}

#[test]
fn opening_a_vmdump_of_100_gb_reads_few_bytes_in_few_requests() {
    let directory = tempfile::tempdir().unwrap();
    let [small, large] = make(directory.path());
    assert!(fs::metadata(&large).unwrap().len() >= SIZE);
    let ([small_ram, small_pages], _) = open(&small);
    let ([ram, pages], [bytes, reads]) = open(&large);
    assert_eq!(
        ram - small_ram,
        pages - small_pages,
        "all appended pages are dumped"
    );
    assert!(pages << 12 > 3 * SIZE);
    assert!(bytes <= 2 << 20, "{bytes} bytes in {reads} reads");
    assert!(reads <= 64, "{bytes} bytes in {reads} reads");
}
