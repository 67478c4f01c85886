//! Damaged, truncated and repaired vmdumps: no page is ever wrong, and damage is reported.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "common/machine.rs"]
mod machine;
#[path = "common/random.rs"]
mod random;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bigiron_dump::{
    ChunkCompression, DumpError, DumpIdentity, DumpOptions, DumpOutput, Format, Progress,
    Reference, Verification, ZstdChunks, check_vmdump, dump, find_kernel_by_dump, repair_vmdump,
    verify,
};
use bigiron_format::vmdump::codec::checksum;
use bigiron_format::vmdump::{Chunk, ChunkHeader, ChunkKind};
use bigiron_helpers::Stop;
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, Source};
use machine::core;
use random::Random;

const ZSTD: ChunkCompression = ChunkCompression::Zstd(ZstdChunks {
    level: 1,
    bytes: 64 << 10,
});

fn open(bytes: &[u8]) -> Result<Source, bigiron_kernel::SourceError> {
    Source::from_bytes(Box::new(bytes.to_vec()), PathBuf::from("dump"))
}

fn options() -> DumpOptions {
    DumpOptions {
        threads: 2,
        overwrite: true,
        identity: Some(DumpIdentity {
            time: 1_700_000_000,
            id: *b"0123456789abcdef",
        }),
        level: DumpLevel::new(30).unwrap(),
        ..DumpOptions::default()
    }
}

/// Returns a dump of the machine.
fn vmdump(compression: ChunkCompression) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump");
    let source = open(core()).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let output = DumpOutput::file(Format::Vmdump(compression), path.clone());
    let (progress, stop) = (Progress::new(), Stop::new());
    dump(&kernel.into(), &output, &options(), &progress, &stop).unwrap();
    fs::read(path).unwrap()
}

/// Compares all pages of `dump` with those of the machine.
#[track_caller]
fn read_all(dump: &Source) -> Verification {
    static SOURCE: OnceLock<Source> = OnceLock::new();
    let source = SOURCE.get_or_init(|| open(core()).unwrap());
    let (progress, stop) = (Progress::new(), Stop::new());
    let kernel = find_kernel_by_dump(source, dump.memory());
    let reference = Reference::new(source.memory(), dump.memory(), kernel.as_ref());
    match verify(dump.memory(), Some(&reference), 1, &progress, &stop) {
        Ok(found) => found,
        Err(DumpError::Differs { frame, reason }) => panic!("wrong page {frame}: {reason}"),
        Err(error) => panic!("{error}"),
    }
}

fn findings(dump: &Source) -> Vec<String> {
    check_vmdump(dump.memory().vmdump().unwrap(), 1, &Stop::new()).unwrap()
}

#[test]
fn complete_dump_has_no_findings_in_either_container() {
    for compression in [ZSTD, ChunkCompression::Bzip2] {
        let bytes = vmdump(compression);
        let dump = open(&bytes).unwrap();
        assert_eq!(dump.damage(), None);
        assert_eq!(findings(&dump), Vec::<String>::new());
        let found = read_all(&dump);
        assert_eq!((found.lost, found.damaged), (0, 0));
        assert!(found.pages > 200, "{found:?}");
        assert_eq!(dump.memory().dump_level(), 30);
    }
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    let mut random = Random(1);
    for (compression, flips) in [(ZSTD, 1000), (ChunkCompression::Bzip2, 10)] {
        let good = vmdump(compression);
        let whole = read_all(&open(&good).unwrap());
        let mut harmless = 0;
        for number in 0..flips {
            let bit = random.below(good.len() * 8);
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let dump = match open(&bytes) {
                Ok(dump) => dump,
                Err(error) => {
                    assert!(error.to_string().contains("offset"), "{error}");
                    continue;
                }
            };
            let found = findings(&dump);
            // Reading all pages takes longest, and damage that the check reports is detected by
            // the same checksums.
            if !found.is_empty() && number % 8 > 0 {
                continue;
            }
            let pages = read_all(&dump);
            let is_found = dump.damage().is_some() || pages.damaged > 0 || !found.is_empty();
            assert!(found.iter().all(|line| line.starts_with("offset 0x")));
            if !is_found {
                assert_eq!((pages.pages, pages.lost), (whole.pages, 0), "bit {bit}");
                harmless += 1;
            }
        }
        // The lowest bits of the magic numbers, and the padding of a bzip2 stream.
        assert!(harmless * 50 < flips, "{harmless} of {flips} not found");
    }
}

#[test]
fn excluded_page_with_data_is_reported() {
    let good = vmdump(ZSTD);
    let dump = open(&good).unwrap();
    let file = dump.memory().vmdump().unwrap().file();
    let number = file.header().dump();
    let chunks = file.chunks(0).unwrap();
    let mut decompressor = file.decompressor().unwrap();
    let (mut packed, mut bytes) = (Vec::new(), Vec::new());
    let (sequence, mut chunk) = (0_u64..)
        .zip(chunks)
        .find(|(_, chunk)| {
            if chunk.kind != ChunkKind::Pages || !chunk.dumped.starts_with(&[0xff]) {
                return false;
            }
            file.read_chunk(chunk, &mut decompressor, &mut packed, &mut bytes)
                .unwrap();
            bytes[4096..8192].iter().any(|byte| *byte != 0)
        })
        .unwrap();
    let head = ChunkHeader::size(&chunk);
    // The header marks the second page as not dumped. The index would contradict it, so the
    // file ends before it.
    chunk.dumped[0] &= !2;
    let header = ChunkHeader {
        checksum: checksum(&packed[head..]),
        sequence,
        chunk: chunk.clone(),
    };
    let mut bytes = good[..file.index_record(0).unwrap().offset as usize].to_vec();
    bytes[chunk.offset as usize..][..head].copy_from_slice(&header.encode(number));

    let dump = open(&bytes).unwrap();
    assert_eq!(findings(&dump), Vec::<String>::new());
    let (progress, stop) = (Progress::new(), Stop::new());
    verify(dump.memory(), None, 2, &progress, &stop).unwrap();
    let found = findings(&dump);
    assert!(found.len() == 1, "{found:?}");
    let offset = format!("offset {:#x} (physical address 0x", chunk.offset);
    assert!(found[0].starts_with(&offset), "{found:?}");
    assert!(
        found[0].ends_with("an excluded page is not zero"),
        "{found:?}"
    );
}

#[test]
fn truncated_dump_keeps_every_page_of_its_complete_chunks() {
    let mut random = Random(2);
    for (compression, cuts) in [(ZSTD, 1000), (ChunkCompression::Bzip2, 8)] {
        let good = vmdump(compression);
        let whole = open(&good).unwrap();
        let file = whole.memory().vmdump().unwrap().file();
        let chunks: Vec<_> = (0..file.chunk_groups())
            .flat_map(|piece| file.chunks(piece).unwrap())
            .collect();
        let container = file.header().container;
        for _ in 0..cuts {
            let len = random.below(good.len());
            let dump = match open(&good[..len]) {
                Ok(dump) => dump,
                Err(error) => {
                    let headers = chunks[1].offset as usize;
                    assert!(len < headers, "cut at {len} of {}: {error}", good.len());
                    continue;
                }
            };
            // Only the seek table follows the root.
            let has_root = dump.memory().vmdump().unwrap().file().root().is_some();
            match dump.damage() {
                Some(damage) if has_root => assert!(damage.contains("truncated"), "{damage}"),
                Some(damage) => assert!(damage.contains("no root"), "{damage}"),
                None => assert!(has_root, "truncated at {len} without a warning"),
            }
            let there = |chunk: &&bigiron_format::vmdump::Chunk| {
                let head = chunk.head_size(container) as u64;
                chunk.offset + head + u64::from(chunk.packed) <= len as u64
            };
            let bits = |bytes: &[u8]| -> u64 {
                bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
            };
            let expected: u64 = chunks.iter().filter(there).map(|c| bits(&c.dumped)).sum();
            let found = read_all(&dump);
            assert_eq!(found.damaged, 0);
            if compression == ZSTD {
                assert_eq!(found.pages, expected, "cut at {len}");
                let found = findings(&dump);
                assert!(has_root || found.is_empty(), "cut at {len}: {found:?}");
            } else {
                // Without an index zero pages count as excluded.
                assert!(found.pages <= expected && (expected < 300 || found.pages > 0));
            }
        }
    }
}

#[test]
fn repaired_dump_opens_by_its_index() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump");
    let good = vmdump(ZSTD);
    let mut random = Random(3);
    for round in 0..40 {
        let mut bytes = good[..good.len() / 8 + random.below(good.len() * 7 / 8)].to_vec();
        if round % 2 == 1 {
            // A hole, at a place that a helper had not written yet.
            let at = good.len() / 16 + random.below(bytes.len() / 2);
            let end = (at + 20_000).min(bytes.len());
            bytes[at..end].fill(0);
        }
        let before = read_all(&open(&bytes).unwrap());
        fs::write(&path, &bytes).unwrap();
        if repair_vmdump(&path).unwrap().is_none() {
            continue;
        }
        let dump = Source::open(std::slice::from_ref(&path)).unwrap();
        assert!(dump.memory().vmdump().unwrap().file().root().is_some());
        let after = read_all(&dump);
        assert_eq!((after.pages, after.damaged), (before.pages, before.damaged));
        if round % 2 == 0 {
            assert_eq!(findings(&dump), Vec::<String>::new());
        }
        assert_eq!(repair_vmdump(&path).unwrap(), None);
    }
}

#[test]
fn pages_of_a_chunk_with_a_damaged_header_are_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump");
    let good = vmdump(ZSTD);
    let whole = open(&good).unwrap();
    let file = whole.memory().vmdump().unwrap().file();
    let chunks = file.chunks(0).unwrap();
    let is_dumped = |chunk: &&Chunk| chunk.kind == ChunkKind::Pages;
    let hit = chunks.iter().filter(is_dumped).nth(2).unwrap();
    // Without the index, which lists the chunk as well.
    let mut bytes = good[..file.index_record(0).unwrap().offset as usize].to_vec();
    bytes[hit.offset as usize + 40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    for repaired in [false, true] {
        let dump = Source::open(std::slice::from_ref(&path)).unwrap();
        assert_eq!(
            dump.memory().vmdump().unwrap().file().root().is_some(),
            repaired
        );
        assert_eq!(read_all(&dump).lost, hit.len / 4096);
        repair_vmdump(&path).unwrap();
    }
}

#[test]
fn leftovers_of_another_dump_after_the_end_are_ignored() {
    let good = vmdump(ZSTD);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other");
    let source = open(core()).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let mut other = options();
    other.identity = None;
    other.level = DumpLevel::new(0).unwrap();
    let output = DumpOutput::file(Format::Vmdump(ZSTD), path.clone());
    dump(
        &kernel.into(),
        &output,
        &other,
        &Progress::new(),
        &Stop::new(),
    )
    .unwrap();
    let old = fs::read(&path).unwrap();
    for cut in [good.len() / 3, good.len() / 2, good.len() - 10_000] {
        // A device that held a longer dump before.
        let mut bytes = old.clone();
        bytes[..cut].copy_from_slice(&good[..cut]);
        let on_device = open(&bytes).unwrap();
        let alone = open(&good[..cut]).unwrap();
        assert_eq!(read_all(&on_device).pages, read_all(&alone).pages);
        assert!(on_device.damage().unwrap().contains("no root"));
    }
}

/// A file made by the first writer of version 1 of the format.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

#[test]
fn dumps_of_version_1_are_read_and_written() {
    for (name, compression) in [
        ("version-1.zstd.vmdump", ZSTD),
        ("version-1.bzip2.vmdump", ChunkCompression::Bzip2),
    ] {
        let written = vmdump(compression);
        if std::env::var_os("BIGIRON_WRITE_GOLDEN").is_some() {
            fs::create_dir_all(golden("")).unwrap();
            fs::write(golden(name), &written).unwrap();
        }
        let old = fs::read(golden(name)).unwrap();
        let dump = open(&old).unwrap();
        assert_eq!(dump.damage(), None);
        assert_eq!(findings(&dump), Vec::<String>::new());
        let pages = read_all(&dump).pages;
        assert!(pages > 200);
        assert_eq!(read_all(&open(&written).unwrap()).pages, pages, "{name}");
        // zstd's effort at a level may change; its output remains readable.
        if compression == ChunkCompression::Bzip2 {
            assert!(written == old, "{name}: other bytes are written today");
        }
    }
}
