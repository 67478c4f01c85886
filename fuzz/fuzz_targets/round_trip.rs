//! Pages filled by the fuzzer, dumped in a format that it chooses, and read back: every page is
//! present and equal.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use bigiron_dump::{
    ChunkCompression, DumpOptions, DumpOutput, Format, Optimizations, PageCompression, Progress,
    Reference, Subject, ZstdChunks, dump, verify,
};
use bigiron_format::codec::{Codec, Compression};
use bigiron_fuzz::Patched;
use bigiron_helpers::{MemoryBudget, Stop};
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, Source};
use bigiron_synth::{ElfShape, LoadExtent, Synth};
use libfuzzer_sys::fuzz_target;

/// The first page frame that the fuzzer fills.
const FIRST: u64 = 0x200;
/// Number of page frames that the fuzzer fills.
const PAGES: u64 = 64;
const PAGE: u64 = 4096;

/// The dump, and the offset of the first of these pages in it.
static DUMP: LazyLock<(Vec<u8>, usize)> = LazyLock::new(|| {
    let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x8ff\npages 0x200 kernel n=64";
    let machine = Synth::from_text(text).expect("a legal text");
    let image = machine.elf_image(&ElfShape::vmcore());
    let inside = |load: &&LoadExtent| {
        let len = load.data.len() as u64;
        (load.paddr..load.paddr + len).contains(&(FIRST * PAGE))
    };
    let load = image.loads.iter().find(inside).expect("a PT_LOAD with it");
    let offset = load.data.start + (FIRST * PAGE - load.paddr) as usize;
    (image.bytes, offset)
});

fuzz_target!(|data: &[u8]| {
    let Some((&[codec, form, level, threads], contents)) = data.split_first_chunk() else {
        return;
    };
    let (dump_bytes, place) = &*DUMP;
    // Parts of the input go to pages in turn, so that pages are equal, nearly equal, all zero,
    // and easy or hard to compress.
    let mut pages = vec![0; (PAGES * PAGE) as usize];
    for (index, piece) in contents.chunks(64).enumerate() {
        let index = index as u64;
        let offset = index / PAGES * 64 % PAGE;
        let mut put = |page: u64| {
            let at = (page % PAGES * PAGE + offset) as usize;
            pages[at..at + piece.len()].copy_from_slice(piece);
        };
        put(index * 7);
        if form & 0x80 != 0 {
            put(index * 7 + 1);
        }
    }
    let source = bigiron_fuzz::open(Patched {
        base: dump_bytes,
        patches: vec![(*place, pages)],
    });
    let source = source.expect("a sound core");
    let kernel = Kernel::find(&source, None, IoMethod::Read, 8).expect("a sound kernel");
    let subject = Subject::from(kernel);

    let compression = match Codec::ALL.get(usize::from(codec & 0x0f) % (Codec::ALL.len() + 1)) {
        Some(codec) => Compression::new(*codec).into(),
        None => PageCompression::Adaptive,
    };
    let format = match usize::from(form & 0x7f) % 4 {
        kdump @ (0 | 1) => Format::Kdump {
            compression,
            flattened: kdump == 1,
        },
        2 => Format::ELF,
        _ if codec & 1 == 0 => Format::Vmdump(ChunkCompression::Zstd(ZstdChunks::default())),
        _ => Format::Vmdump(ChunkCompression::Bzip2),
    };
    let options = DumpOptions {
        level: DumpLevel::new(level % 32).expect("below 32"),
        threads: 1 + usize::from(threads % 3),
        memory: MemoryBudget::of(64 << 20),
        io: IoMethod::Read,
        overwrite: true,
        write_limit: None,
        size_limit: None,
        discard_if_full: false,
        optimizations: Optimizations {
            equal_pages: codec & 0x10 == 0,
            incompressible: codec & 0x20 == 0,
            scan_blocks: codec & 0x40 == 0,
            direct_writes: codec & 0x80 == 0,
        },
        ..DumpOptions::default()
    };
    let directory = Path::new("/dev/shm");
    let directory = if directory.is_dir() {
        directory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let path = directory.join(format!("bigiron-round-trip-{}", std::process::id()));
    let (progress, stop) = (Progress::new(), Stop::new());
    let output = DumpOutput::file(format, &path);
    let summary = dump(&subject, &output, &options, &progress, &stop).expect("a dump");
    let made = Source::open(std::slice::from_ref(&path)).expect("a dump that opens");
    assert_eq!(made.damage(), None);
    let kernel = subject.kernel().expect("the kernel of the subject");
    let reference = Reference::new(source.memory(), made.memory(), Ok(kernel));
    let found = verify(made.memory(), Some(&reference), 1, &Progress::new(), &stop);
    let found = found.expect("equal pages");
    assert_eq!((found.lost, found.missing), (0, 0));
    if format != Format::ELF {
        assert_eq!(found.pages, summary.dumped);
        assert_eq!(found.pages + found.left_out, summary.ram);
    }
    std::fs::remove_file(path).expect("its own file");
});
