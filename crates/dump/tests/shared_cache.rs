//! Dumps read by many threads through one cache: every page is right, each chunk is
//! decompressed once, memory stays within the limit, and damage is reported each time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "common/machine.rs"]
mod machine;
#[path = "common/random.rs"]
mod random;

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;

use bigiron_dump::{
    ChunkCompression, DumpOptions, DumpOutput, Format, OutputTarget, Progress, ZstdChunks, dump,
};
use bigiron_format::bitmap::Bitmap;
use bigiron_format::codec::{Codec, Compression};
use bigiron_format::vmdump::{ChunkKind, VmdumpFile};
use bigiron_format::{PageFrame, PhysAddr, ReadAt};
use bigiron_helpers::Stop;
use bigiron_kernel::{
    CacheUsage, DumpLevel, IoMethod, Kernel, PhysicalMemory, SECTION_FRAMES, Source,
};
use machine::core;
use random::Random;

const PAGE: u64 = 4096;
const CHUNK: u64 = 64 << 10;
/// More memory than the machine has.
const ENOUGH: u64 = 64 << 20;
const THREADS: usize = 8;

fn source_of(parts: &[Vec<u8>]) -> Source {
    let parts = parts.iter().enumerate().map(|(index, bytes)| {
        let bytes: Box<dyn ReadAt> = Box::new(bytes.clone());
        (bytes, PathBuf::from(format!("file{index}")))
    });
    Source::from_several(parts.collect()).unwrap()
}

/// Makes a dump of the machine in `parts` files.
fn make(output: impl Fn(Vec<OutputTarget>) -> DumpOutput, parts: usize) -> Vec<Vec<u8>> {
    let options = DumpOptions {
        threads: 1,
        level: DumpLevel::new(1).unwrap(),
        ..DumpOptions::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let name = |part| OutputTarget::File(directory.path().join(format!("part{part}")));
    let targets: Vec<_> = (0..parts).map(name).collect();
    let source = source_of(&[core().to_vec()]);
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let (progress, stop) = (Progress::new(), Stop::new());
    let output = output(targets.clone());
    dump(&kernel.into(), &output, &options, &progress, &stop).unwrap();
    let paths = targets.iter().filter_map(OutputTarget::path);
    paths.map(|path| fs::read(path).unwrap()).collect()
}

/// Returns dumps of each compressed kind.
fn dumps() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let chunks = ZstdChunks {
        bytes: CHUNK as u32,
        ..ZstdChunks::default()
    };
    let whole = |format: Format| {
        move |mut targets: Vec<OutputTarget>| DumpOutput::whole(format, targets.remove(0))
    };
    let striped = |targets| DumpOutput::Striped {
        chunks,
        targets,
        recipients: None,
    };
    let kdump = |codec| whole(Format::kdump(Compression::new(codec)));
    let vmdump = whole(Format::Vmdump(ChunkCompression::Zstd(chunks)));
    vec![
        ("vmdump", make(vmdump, 1)),
        ("stripes", make(striped, 3)),
        ("lzo", make(kdump(Codec::Lzo), 1)),
        ("zstd", make(kdump(Codec::Zstd), 1)),
    ]
}

/// Returns all pages of a dump, each read by a reader of its own.
fn pages_of(source: &Source) -> Vec<(PageFrame, Vec<u8>)> {
    let memory = source.memory();
    let mut reader = memory.reader(IoMethod::Auto);
    let mut present = Bitmap::new(SECTION_FRAMES as usize);
    let mut pages = Vec::new();
    for first in memory.sections() {
        memory.present(first, &mut present).unwrap();
        for bit in (0..present.len()).filter(|bit| present.get(*bit)) {
            let frame = PageFrame(first.0 + bit as u64);
            pages.push((frame, reader.pages(frame, 1).unwrap().to_vec()));
        }
    }
    assert!(pages.len() > 500, "{}", pages.len());
    pages
}

/// Reads all pages in many threads concurrently, each in a different order, with each method,
/// and compares them with `pages`.
fn read_by_many(source: &Source, pages: &[(PageFrame, Vec<u8>)]) -> CacheUsage {
    let memory = PhysicalMemory::new(source.memory(), IoMethod::Auto, 16);
    let barrier = Barrier::new(THREADS);
    let work = |thread: usize| {
        let mut random = Random(thread as u64 + 1);
        let mut order: Vec<_> = pages.iter().collect();
        for index in 1..order.len() {
            order.swap(index, random.below(index + 1));
        }
        let mut bytes = vec![0; PAGE as usize];
        barrier.wait();
        for (frame, expected) in order {
            let address = PhysAddr(frame.0 * PAGE);
            memory.read(address, &mut bytes).unwrap();
            assert!(bytes == *expected, "page frame {frame}");
            let at = random.below(PAGE as usize - 8);
            let mut few = [0; 8];
            memory
                .read(PhysAddr(address.0 + at as u64), &mut few)
                .unwrap();
            assert_eq!(few, expected[at..at + 8], "page frame {frame}");
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    source.memory().cache_usage().unwrap()
}

#[test]
fn many_threads_read_every_page_within_the_memory_limit() {
    for (name, parts) in dumps() {
        let mut source = source_of(&parts);
        let pages: Vec<_> = pages_of(&source).into_iter().step_by(2).collect();
        // Less than all of it needs, so that much is evicted.
        let allowed = 3 << 20;
        source.set_cache(allowed);
        let usage = read_by_many(&source, &pages);
        assert_eq!(usage.size, allowed, "{name}");
        assert!(usage.peak_bytes <= allowed, "{name}: {usage:?}");
        assert!(usage.peak_bytes > allowed / 2, "{name}: {usage:?}");
        assert!(usage.bytes <= usage.peak_bytes, "{name}: {usage:?}");
    }
}

#[test]
fn concurrent_readers_decompress_each_chunk_once() {
    for (name, parts) in dumps() {
        let mut source = source_of(&parts);
        let pages = pages_of(&source);
        source.set_cache(ENOUGH);
        let usage = read_by_many(&source, &pages);
        match source.memory().vmdump() {
            Some(_) => {
                let chunks: usize = parts.iter().map(|part| chunks_of_pages(part)).sum();
                assert_eq!(usage.unpacked, chunks as u64, "{name}");
            }
            // Reading two consecutive pages reads more ahead, which another thread may be
            // reading at that moment.
            None => {
                let pages = pages.len() as u64;
                assert!(
                    (pages..pages + pages / 16).contains(&usage.unpacked),
                    "{name}"
                );
            }
        }
        assert_eq!(read_by_many(&source, &pages).unpacked, usage.unpacked);
    }
}

fn chunks_of_pages(part: &[u8]) -> usize {
    let file = VmdumpFile::open(Box::new(part.to_vec())).unwrap();
    let chunks = (0..file.chunk_groups()).flat_map(|piece| file.chunks(piece).unwrap());
    chunks
        .filter(|chunk| chunk.kind == ChunkKind::Pages)
        .count()
}

#[test]
fn held_pages_are_unchanged_after_eviction() {
    for (name, parts) in dumps() {
        let mut source = source_of(&parts);
        let pages = pages_of(&source);
        source.set_cache(1 << 20);
        let memory = PhysicalMemory::new(source.memory(), IoMethod::Auto, 0);
        let kept: Vec<_> = pages
            .iter()
            .map(|(frame, _)| memory.pages(*frame, 1).unwrap())
            .collect();
        for ((frame, expected), kept) in pages.iter().zip(&kept) {
            assert!(kept[..] == expected[..], "{name}: page frame {frame}");
        }
        let long = memory.pages(pages[0].0, 1000).unwrap();
        let all: Vec<u8> = pages.iter().flat_map(|(_, page)| page.clone()).collect();
        assert!(all.starts_with(&long), "{name}");
        drop((kept, long, memory));
        let usage = source.memory().cache_usage().unwrap();
        assert!(usage.bytes <= usage.size, "{name}: {usage:?}");
    }
}

#[test]
fn damage_is_reported_to_every_reader_and_affects_no_other_page() {
    for (name, mut parts) in dumps() {
        let whole = pages_of(&source_of(&parts));
        let part = parts.last_mut().unwrap();
        // Some of these places are in compressed data, where not every byte is valid.
        for place in 2..8 {
            let at = part.len() * place / 8;
            part[at..at + 600].fill(0xff);
        }
        let mut source = source_of(&parts);
        let alone: Vec<_> = whole
            .iter()
            .map(|(frame, _)| {
                let mut reader = source.memory().reader(IoMethod::Auto);
                reader
                    .pages(*frame, 1)
                    .map(<[u8]>::to_vec)
                    .map_err(|error| error.to_string())
            })
            .collect();
        let damaged = alone.iter().filter(|page| page.is_err()).count();
        assert!((1..whole.len() / 2).contains(&damaged), "{name}: {damaged}");
        source.set_cache(ENOUGH);
        let memory = PhysicalMemory::new(source.memory(), IoMethod::Auto, 16);
        let work = || {
            let mut bytes = vec![0; PAGE as usize];
            for ((frame, _), expected) in whole.iter().zip(&alone) {
                let read = memory.read(PhysAddr(frame.0 * PAGE), &mut bytes);
                match (read, expected) {
                    (Ok(()), Ok(expected)) => assert!(bytes == *expected, "{name}: {frame}"),
                    (Err(error), Err(expected)) => assert_eq!(error.to_string(), *expected),
                    (read, expected) => panic!("{name}: {frame}: {read:?} for {expected:?}"),
                }
            }
        };
        for _ in 0..2 {
            std::thread::scope(|scope| {
                (0..THREADS).for_each(|_| drop(scope.spawn(work)));
            });
        }
    }
}

#[test]
fn excluded_page_is_absent_with_and_without_a_cache() {
    for (name, parts) in dumps() {
        let mut source = source_of(&parts);
        let end = source.memory().end_frame().0;
        let read = |source: &Source| -> Vec<_> {
            let mut reader = source.memory().reader(IoMethod::Auto);
            let frames = (0..end + 10).chain([u64::MAX >> 12, u64::MAX]);
            let mut read = |frame| {
                let pages = reader.pages(PageFrame(frame), 1);
                pages.map(<[u8]>::to_vec).map_err(|error| error.to_string())
            };
            frames.map(&mut read).collect()
        };
        let alone = read(&source);
        assert!(alone.iter().any(Result::is_err) && alone.iter().any(Result::is_ok));
        source.set_cache(ENOUGH);
        assert!(read(&source) == alone, "{name}");
    }
}

#[test]
fn cache_too_small_for_one_chunk_is_disabled() {
    for (name, parts) in dumps() {
        let mut source = source_of(&parts);
        let pages = pages_of(&source);
        for allowed in [0, 1, PAGE] {
            source.set_cache(allowed);
            assert_eq!(source.memory().cache_usage(), None, "{name}");
            assert_eq!(source.memory().parallel_readers(), 1, "{name}");
            assert!(pages_of(&source) == pages, "{name}");
        }
    }
}
