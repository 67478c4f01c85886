//! Dumps on disks with a sector that cannot be read: nothing readable is lost, and nothing is
//! destroyed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::device::{self, BLOCK_SIZE, BlockPosition, CONTENTS_OFFSET};
use bigiron_format::kdump::KdumpHeaders;
use bigiron_format::vmdump::{Chunk, ChunkKind, VmdumpFile};
use bigiron_kernel::{SECTION_FRAMES, Source};
use bigiron_synth::{ElfShape, Synth};
use serde_json::Value;

use crate::common::{Outcome, arg, command, finish, run};
use crate::save::SaveLab;

const SECTOR: u64 = 4096;
/// Pages of the chunks that a sector is part of, or equal to the pages in it, and more.
const MOST_LOST: u64 = 256;
/// Small chunks, so that a dump has many.
const VMDUMP: [&str; 8] = ["-f", "vmdump", "--chunk-size", "64K", "-d", "0", "-j", "1"];

/// Returns the library that lets reads fail.
fn library() -> &'static Path {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("bad_sector.so");
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/cli/programs/bad_sector.c"
        );
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-o", arg(&library), source, "-ldl"])
            .status();
        assert!(compiled.unwrap().success());
        (directory, library)
    });
    &made.1
}

/// Runs the program on a disk where the sector at `offset` of `file` cannot be read.
#[track_caller]
fn run_with_bad_sector(file: &Path, offset: u64, arguments: &[&str]) -> Outcome {
    run_with_bad_sectors(&[file], offset, arguments)
}

/// The same where the sectors at `offset` of all `files` cannot be read.
#[track_caller]
fn run_with_bad_sectors(files: &[&Path], offset: u64, arguments: &[&str]) -> Outcome {
    let files = files.iter().map(|file| fs::canonicalize(file).unwrap());
    let files = files.fold(":".to_owned(), |all, file| format!("{all}{}:", arg(&file)));
    let child = command(arguments)
        .env("LD_PRELOAD", library())
        .env("BAD_FILES", files)
        .env("BAD_OFFSET", offset.to_string())
        .spawn();
    finish(child.unwrap())
}

/// Returns the chunks of pages of the vmdump in `bytes`.
fn chunks(bytes: Vec<u8>) -> Vec<Chunk> {
    let file = VmdumpFile::open(Box::new(bytes)).unwrap();
    let groups = 0..file.chunk_groups();
    let chunks = groups.flat_map(|group| file.chunks(group).unwrap());
    chunks
        .filter(|chunk| chunk.kind == ChunkKind::Pages)
        .collect()
}

/// Returns the sector that has the middle of the file's chunk heads.
fn sector_of_a_head(bytes: &[u8]) -> u64 {
    let chunks = chunks(bytes.to_vec());
    let offset = chunks[chunks.len() / 2].offset;
    offset - offset % SECTOR
}

/// Returns the number of pages that can be read.
fn readable_pages(dump: &Path) -> u64 {
    let report = run(&["verify", "--json", arg(dump)]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    report["pages"].as_u64().unwrap()
}

/// Asserts that the dump is found damaged, and no readable page different from its source.
#[track_caller]
fn equal_where_readable(dump: &Path, source: &Path) {
    let outcome = run(&["verify", arg(dump), "--against", arg(source)]).code(1);
    assert!(!outcome.stderr.contains("differs"), "{}", outcome.stderr);
}

/// A vmdump without its end, as a stopped machine leaves it.
fn cut_vmdump(place: &SaveLab) -> PathBuf {
    let whole = place.lab.dump("whole", &VMDUMP);
    let bytes = fs::read(whole).unwrap();
    let last = chunks(bytes.clone()).pop().unwrap();
    place.lab.file("cut", &bytes[..last.offset as usize])
}

#[test]
fn repair_of_a_dump_with_a_bad_sector_loses_only_what_is_in_it() {
    let place = SaveLab::new();
    let cut = cut_vmdump(&place);
    let all = readable_pages(&cut);
    let size = fs::metadata(&cut).unwrap().len();
    let sector = sector_of_a_head(&fs::read(&cut).unwrap());
    // The exit status is that of the verification.
    run_with_bad_sector(
        &cut,
        sector,
        &["verify", "--no-sandbox", "--repair", arg(&cut)],
    )
    .code(1)
    .says(&["cannot read"]);
    assert!(fs::metadata(&cut).unwrap().len() >= size);
    equal_where_readable(&cut, place.lab.vmcore());
    let left = readable_pages(&cut);
    assert!(
        left < all && left + MOST_LOST > all,
        "{left} of {all} pages"
    );
}

#[test]
fn repair_that_could_cut_off_chunks_is_refused() {
    let place = SaveLab::new();
    let cut = cut_vmdump(&place);
    let before = fs::read(&cut).unwrap();
    let last = chunks(before.clone()).pop().unwrap().offset;
    let sector = last - last % SECTOR;
    run_with_bad_sector(
        &cut,
        sector,
        &["verify", "--no-sandbox", "--repair", arg(&cut)],
    )
    .code(1)
    .says(&["was not changed", "cannot read", "bigiron save"]);
    assert!(fs::read(&cut).unwrap() == before, "the dump was changed");
}

#[test]
fn save_keeps_all_that_a_failing_device_returns_and_leaves_its_mark() {
    for format in [&VMDUMP[..], &["-f", "kdump", "-d", "0", "-c", "none"]] {
        let place = SaveLab::with_dump(format);
        let whole = readable_pages(&place.device);
        let sector = CONTENTS_OFFSET + place.contents().len() as u64 / 2;
        let sector = sector - sector % SECTOR;
        let save = |options: &[&str]| {
            let paths = [arg(&place.device), arg(&place.directory)];
            let arguments = [&["save"], options, &paths].concat();
            run_with_bad_sector(&place.device, sector, &arguments)
        };
        let offset = format!("4096 bytes at offset {:#x}", sector - CONTENTS_OFFSET);
        save(&[])
            .code(1)
            .says(&[&offset, "cannot be read", "--accept-loss"]);
        assert!(place.is_valid());
        let copy = place.file("vmdump.0");
        equal_where_readable(&copy, place.lab.vmcore());
        let left = readable_pages(&copy);
        assert!(
            left < whole && left + MOST_LOST > whole,
            "{left} of {whole} pages"
        );
        // The next boot neither saves it again nor takes it as saved.
        save(&[]).code(1).says(&[&offset]);
        assert!(place.is_valid());
        assert!(!place.names().contains(&"vmdump.1".to_owned()));
        save(&["--accept-loss"]).code(0);
        assert!(!place.is_valid());
    }
}

#[test]
fn parts_are_joined_around_a_bad_sector_and_a_bitmap_is_read_from_another_part() {
    let place = SaveLab::new();
    let parts = ["part1", "part2"].map(|name| place.lab.path(name));
    let names: Vec<_> = parts.iter().map(|part| arg(part)).collect();
    let split = [
        "makedumpfile",
        "--split",
        "-d",
        "0",
        arg(place.lab.vmcore()),
    ];
    run(&[&split, &names[..]].concat()).code(0);
    let bytes = fs::read(&parts[0]).unwrap();
    let bitmap = KdumpHeaders::read(&bytes).unwrap().layout.dumped_bitmap();
    let data = bytes.len() as u64 * 3 / 4;
    let save = |sector: u64| {
        let arguments = [&["save"], &names[..], &[arg(&place.directory)]].concat();
        run_with_bad_sector(&parts[0], sector - sector % SECTOR, &arguments)
    };
    save(bitmap).code(0);
    let whole = place.file("vmdump.0");
    run(&["verify", arg(&whole), "--against", arg(place.lab.vmcore())]).code(0);
    let all = readable_pages(&whole);
    fs::remove_file(&whole).unwrap();
    save(data).code(1).says(&["cannot be read"]);
    let copy = newest(&place);
    equal_where_readable(&copy, place.lab.vmcore());
    let left = readable_pages(&copy);
    assert!(
        left < all && left + MOST_LOST > all,
        "{left} of {all} pages"
    );
}

#[test]
fn parts_are_joined_around_a_sector_of_the_bitmap_that_none_of_them_returns() {
    let place = SaveLab::new();
    let text = "kernel 6.12
        ram 0x0-0x9f 0x100-0x9ff 0x8000-0x82ff
        pages 0x200 slab n=64 fill=random ; 0x300 cache n=64
        pages 0x8000 slab n=64 fill=random ; 0x8100 cache n=64";
    let core = Synth::from_text(text).unwrap().elf(&ElfShape::vmcore());
    let core = place.lab.file("core", &core);
    let parts = ["part1", "part2", "part3"].map(|name| place.lab.path(name));
    let names: Vec<_> = parts.iter().map(|part| arg(part)).collect();
    for (level, sector) in [("0", 0), ("0", 1), ("31", 0), ("31", 1)] {
        let split = ["makedumpfile", "--split", "-d", level, arg(&core)];
        run(&[&split, &names[..]].concat()).code(0);
        let bytes = fs::read(&parts[0]).unwrap();
        let bitmap = KdumpHeaders::read(&bytes).unwrap().layout.dumped_bitmap();
        run(&[&["save", "--again"], &names[..], &[arg(&place.directory)]].concat()).code(0);
        let whole = newest(&place);
        let all = readable_pages(&whole);
        // The sector has the bits of 128 MiB.
        let kept = kept_frames(&whole);
        let in_sector = kept.iter().filter(|frame| **frame >> 15 == sector);
        let in_sector = in_sector.count() as u64;
        assert!(in_sector > 0 && in_sector < all);
        fs::remove_file(&whole).unwrap();
        let save = [&["save", "--again"], &names[..], &[arg(&place.directory)]].concat();
        let files: Vec<_> = parts.iter().map(PathBuf::as_path).collect();
        let outcome = run_with_bad_sectors(&files, bitmap + sector * SECTOR, &save);
        outcome.code(1).says(&["cannot be read"]);
        let copy = newest(&place);
        let left = readable_pages(&copy);
        // The bits are known of parts of which all RAM was dumped.
        match level {
            "0" => assert_eq!(left, all, "sector {sector}"),
            _ => assert!(
                left < all && left + in_sector >= all,
                "sector {sector}: {left} of {all} pages, {in_sector} in the sector"
            ),
        }
        equal_where_readable(&copy, &core);
        fs::remove_file(&copy).unwrap();
        parts.iter().for_each(|part| fs::remove_file(part).unwrap());
    }
}

#[test]
fn copy_of_one_part_with_a_bad_sector_in_its_bitmap_keeps_its_pages() {
    let place = SaveLab::new();
    let parts = ["part1", "part2"].map(|name| place.lab.path(name));
    let names: Vec<_> = parts.iter().map(|part| arg(part)).collect();
    let core = place.lab.vmcore();
    let split = ["makedumpfile", "--split", "-d", "0", arg(core)];
    run(&[&split, &names[..]].concat()).code(0);
    for part in &parts {
        let bytes = fs::read(part).unwrap();
        let bitmap = KdumpHeaders::read(&bytes).unwrap().layout.dumped_bitmap();
        let save = ["save", "--again", arg(part), arg(&place.directory)];
        run_with_bad_sector(part, bitmap, &save)
            .code(1)
            .says(&["cannot be read"]);
        let copy = newest(&place);
        assert_eq!(readable_pages(&copy), readable_pages(part));
        assert_eq!(kept_frames(&copy), kept_frames(part));
        equal_where_readable(&copy, core);
    }
}

/// Returns the copy that was saved last.
fn newest(place: &SaveLab) -> PathBuf {
    let names = place.names();
    let newest = names.iter().rfind(|name| name.starts_with("vmdump."));
    place.file(newest.unwrap())
}

/// Returns the page frames that the dump has.
fn kept_frames(dump: &Path) -> Vec<u64> {
    let source = Source::open(&[dump.to_owned()]).unwrap();
    let memory = source.memory();
    let mut frames = Vec::new();
    for first in memory.sections() {
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        memory.present(first, &mut bits).unwrap();
        frames.extend(
            (0..bits.len())
                .filter(|bit| bits.get(*bit))
                .map(|bit| first.0 + bit as u64),
        );
    }
    frames
}

#[test]
fn save_of_an_interrupted_device_dump_keeps_what_follows_a_bad_sector() {
    let place = SaveLab::with_dump(&VMDUMP);
    let contents = place.contents();
    let head = sector_of_a_head(&contents);
    // The writer was stopped: no end of the dump, and no mark that it is complete.
    let last = chunks(contents).pop().unwrap().offset;
    place.patch(|bytes| {
        let mut header = device::find(&bytes[..]).unwrap().unwrap().header;
        header.complete = false;
        bytes[(CONTENTS_OFFSET + last) as usize..].fill(0);
        let end = bytes.len() - BLOCK_SIZE;
        bytes[..BLOCK_SIZE].copy_from_slice(&header.encode(BlockPosition::Start));
        bytes[end..].copy_from_slice(&header.encode(BlockPosition::End));
    });
    let all = readable_pages(&place.device);
    let paths = [arg(&place.device), arg(&place.directory)];
    let arguments = [&["save"], &paths[..]].concat();
    run_with_bad_sector(&place.device, CONTENTS_OFFSET + head, &arguments)
        .code(1)
        .says(&["cannot be read", "--accept-loss"]);
    assert!(place.is_valid());
    let copy = place.file("vmdump.0");
    equal_where_readable(&copy, place.lab.vmcore());
    let left = readable_pages(&copy);
    assert!(
        left < all && left + MOST_LOST > all,
        "{left} of {all} pages"
    );
}

#[test]
fn dump_with_any_bad_sector_is_read_around_it() {
    let place = SaveLab::new();
    let dump = place.lab.dump("whole", &VMDUMP);
    let bytes = fs::read(&dump).unwrap();
    let (first, size) = (chunks(bytes.clone())[0].offset, bytes.len() as u64);
    let ends = [size - SECTOR, size - 1].map(|at| at - at % SECTOR);
    let middle = [first, size / 3, size / 2].map(|at| at - at % SECTOR + SECTOR);
    let source = arg(place.lab.vmcore());
    for sector in ends.into_iter().chain(middle) {
        let outcome = run_with_bad_sector(
            &dump,
            sector,
            &[
                "verify",
                "--no-sandbox",
                "--json",
                arg(&dump),
                "--against",
                source,
            ],
        );
        assert!(
            !outcome.stdout.is_empty(),
            "sector {sector:#x}: {outcome:?}"
        );
        let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        let pages = report["pages"].as_u64().unwrap();
        let damaged = report["damaged"].as_u64().unwrap();
        assert_eq!(outcome.code, Some(1), "sector {sector:#x}");
        assert!(outcome.stderr.contains("cannot read"), "{outcome:?}");
        assert!(
            pages > 2000 && damaged < MOST_LOST,
            "sector {sector:#x}: {report}"
        );
    }
    // The first sector has the headers of the core.
    run_with_bad_sector(&dump, 0, &["verify", "--no-sandbox", arg(&dump)])
        .code(1)
        .says(&["cannot read a chunk at offset 0x"]);
}
