//! Expanding saved vmdumps: the core that `zstd -d` and `bzip2 -d` unpack, and the
//! remaining pages of a damaged one.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use bigiron_format::device::{BLOCK_SIZE, BlockPosition as Block, CONTENTS_OFFSET, DeviceHeader};
use bigiron_format::vmdump::{ChunkKind, VmdumpFile};
use serde_json::Value;

use crate::common::{Lab, arg, run};
use crate::save::{SaveLab, lab};

/// Unpacks a dump with `program`; returns `None` if that is not installed.
fn unpacked(program: &str, dump: &Path) -> Option<Vec<u8>> {
    let output = Command::new(program).args(["-d", "-c"]).arg(dump).output();
    let Ok(output) = output else {
        println!("skipped: {program} is not installed");
        return None;
    };
    assert!(output.status.success(), "{program}: {output:?}");
    Some(output.stdout)
}

/// Expands `dump`, and returns the core, the JSON report and the messages.
#[track_caller]
fn expand(lab: &Lab, dump: &Path, options: &[&str]) -> (PathBuf, Value, String) {
    let directory = lab.path("expanded/");
    let _ = fs::remove_dir_all(&directory);
    let line = ["save", "-f", "--json"];
    let line = [&line[..], options, &[arg(dump), arg(&directory)]].concat();
    let outcome = run(&line).code(0);
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    (directory.join("vmcore.0"), report, outcome.stderr)
}

fn file(dump: &Path) -> VmdumpFile {
    VmdumpFile::open(Box::new(fs::read(dump).unwrap())).unwrap()
}

/// Returns the offset in the core of a chunk in the middle of the pages, and its bytes in the file.
fn some_chunk(dump: &Path) -> (std::ops::Range<usize>, usize) {
    let file = file(dump);
    let chunks: Vec<_> = (0..file.chunk_groups())
        .flat_map(|piece| file.chunks(piece).unwrap())
        .filter(|chunk| chunk.kind == ChunkKind::Pages)
        .collect();
    let chunk = &chunks[chunks.len() / 2];
    let head = chunk.head_size(file.header().container);
    let middle = chunk.offset as usize + head + chunk.packed as usize / 2;
    (chunk.position as usize..chunk.end() as usize, middle)
}

#[test]
fn expanded_core_equals_what_zstd_and_bzip2_unpack_with_holes_for_zeros() {
    let lab = lab();
    for (codec, program) in [("zstd", "zstd"), ("bzip2", "bzip2")] {
        for level in ["0", "31"] {
            let dump = lab.dump("dump", &["-f", "vmdump", "-c", codec, "-d", level]);
            let Some(mut right) = unpacked(program, &dump) else {
                continue;
            };
            // bzip2 unpacks the index after the core.
            right.truncate(file(&dump).header().core_size as usize);
            for options in [&["-j1"][..], &["-j4", "--memory-limit", "64M"]] {
                let (core, report, _) = expand(&lab, &dump, options);
                assert!(fs::read(&core).unwrap() == right, "{codec} {level}");
                assert_eq!(report["complete"], true);
                let metadata = fs::metadata(&core).unwrap();
                assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
                let data = right
                    .chunks(4096)
                    .filter(|page| page.iter().any(|byte| *byte != 0));
                let data = data.map(|page| page.len() as u64).sum::<u64>();
                assert_eq!(report["bytes_copied"], data);
                assert!(metadata.blocks() * 512 <= data + (64 << 10));
            }
        }
    }
}

#[test]
fn damaged_chunk_loses_only_its_own_pages_and_is_recorded() {
    let lab = lab();
    for codec in ["zstd", "bzip2"] {
        let dump = lab.dump("dump", &["-f", "vmdump", "-c", codec, "-d", "0"]);
        let (core, ..) = expand(&lab, &dump, &[]);
        let mut right = fs::read(core).unwrap();
        let (pages, middle) = some_chunk(&dump);
        let mut bytes = fs::read(&dump).unwrap();
        bytes[middle] ^= 0x10;
        let damaged = lab.file("damaged", &bytes);
        let (core, report, said) = expand(&lab, &damaged, &[]);
        let lost = format!("{} pages lost", pages.len() / 4096);
        right[pages].fill(0);
        assert!(fs::read(&core).unwrap() == right, "{codec}");
        assert_eq!(report["complete"], false);
        assert!(said.contains(&lost), "{said}");
        let info = fs::read_to_string(core.with_file_name("info.0")).unwrap();
        assert!(info.contains(&format!("incomplete: {lost}")), "{info}");
    }
}

#[test]
fn truncated_dump_keeps_all_complete_chunks() {
    let lab = lab();
    for codec in ["zstd", "bzip2"] {
        let dump = lab.dump("dump", &["-f", "vmdump", "-c", codec, "-d", "0"]);
        let (core, ..) = expand(&lab, &dump, &[]);
        let mut right = fs::read(core).unwrap();
        let (pages, middle) = some_chunk(&dump);
        let cut = lab.file("cut", &fs::read(&dump).unwrap()[..middle]);
        let (core, report, said) = expand(&lab, &cut, &[]);
        right[pages.start..].fill(0);
        assert!(fs::read(&core).unwrap() == right, "{codec}");
        assert_eq!(report["complete"], false);
        assert!(said.contains("it was cut"), "{said}");
    }
}

#[test]
fn core_is_expanded_directly_from_a_device() {
    let place = SaveLab::with_dump(&["-f", "vmdump", "-d", "31"]);
    let dump = place.lab.file("contents", &place.contents());
    let saved = place.saved(&["-f"]);
    assert_eq!(saved["file"], arg(&place.file("vmcore.0")));
    assert!(!place.is_valid());
    let (core, ..) = expand(&place.lab, &dump, &[]);
    assert!(fs::read(place.file("vmcore.0")).unwrap() == fs::read(core).unwrap());
    assert_eq!(
        fs::read(place.file("dmesg.0")).unwrap(),
        run(&["dmesg", arg(&dump)]).code(0).stdout
    );
}

#[test]
fn no_byte_after_the_last_chunk_is_saved_from_an_interrupted_device() {
    for (codec, tenths) in [("zstd", &[3, 9][..]), ("bzip2", &[5])] {
        let place = SaveLab::new();
        let old = fs::read(&place.device).unwrap();
        place
            .dump(&["-f", "vmdump", "-c", codec, "-d", "0"])
            .code(0);
        let (contents, header) = (place.contents(), place.found().unwrap().header);
        let written = fs::read(&place.device).unwrap();
        for cut in tenths.iter().map(|tenths| contents.len() * tenths / 10) {
            let mut bytes = written.clone();
            let at = CONTENTS_OFFSET as usize + cut;
            bytes[at..].copy_from_slice(&old[at..]);
            let header = DeviceHeader {
                complete: false,
                length: 0,
                ended: 0,
                ..header.clone()
            };
            bytes[..BLOCK_SIZE].copy_from_slice(&header.encode(Block::Start));
            bytes[place.end_block()..].copy_from_slice(&header.encode(Block::End));
            fs::write(&place.device, bytes).unwrap();
            place.empty_directory();
            assert_eq!(place.saved(&[])["complete"], false);
            let saved = place.file("vmdump.0");
            let kept = fs::read(&saved).unwrap();
            assert!(kept.len() > cut / 2 && contents[..cut].starts_with(&kept));
            let said = run(&["verify", arg(&saved), "--against", arg(place.lab.vmcore())])
                .code(1)
                .says(&["incomplete but usable"]);
            assert!(!said.stderr.contains("damaged"), "{}", said.stderr);
            run(&["verify", "--repair", arg(&saved)]).says(&["index of"]);
        }
    }
}
