//! Failures of the machine during a dump: a power cut, a disk
//! that hangs, a file that decays.

use std::fs;
use std::io::{BufRead, BufReader, Read};

use crate::common;
use crate::common::{Lab, arg, command, descriptor_of, field, make_pipe, run, with};
use bigiron_format::kdump::KdumpHeaders;
use rustix::fs::{FallocateFlags, fallocate};

/// Offset of the header's status word.
const STATUS: usize = 424;
const INCOMPLETE: u8 = 8;

/// Consecutive page frames with random data, which no codec compresses.
const FRAMES: std::ops::Range<u64> = 0x400..0x440;

#[test]
fn pages_in_holes_of_an_incomplete_dump_are_lost_and_the_others_are_equal() {
    for codec in ["none", "lzo"] {
        let lab = Lab::new();
        // Where writes wait for the disk, two helpers take turns.
        let options = [
            "-d",
            "0",
            "-c",
            codec,
            "-j",
            "1",
            "--without",
            "direct-writes",
        ];
        let dump = lab.dump("dump", &options);
        let mut bytes = fs::read(&dump).unwrap();
        // Blocks that the file system did not write before the power cut are holes.
        let data = |frame| field(&bytes, descriptor_of(&bytes, frame));
        let (start, end) = (data(FRAMES.start + 8), data(FRAMES.end - 8));
        assert!(start < end, "the pages are in order");
        bytes[STATUS] |= INCOMPLETE;
        let cut = lab.file("cut", &bytes);
        let file = fs::File::options().write(true).open(&cut).unwrap();
        let hole = start.next_multiple_of(4096)..end / 4096 * 4096;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&file, flags, hole.start, hole.end - hole.start).is_err() {
            println!("skipped: this file system has no holes");
            return;
        }
        let lost = (hole.end - hole.start) / 4096;
        let outcome = run(&[
            "verify",
            "--json",
            arg(&cut),
            "--against",
            arg(lab.vmcore()),
        ]);
        let outcome = outcome.code(1).says(&["incomplete but usable"]);
        let report: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
        let found = report["lost"].as_u64().unwrap();
        assert!(
            (lost - 1..=lost + 1).contains(&found),
            "{found} of {lost}: {report}"
        );
        assert_eq!(report["damaged"], 0);
        // A dump of it has the same pages, and no zeros instead of lost ones.
        let again = lab.path("again");
        run(&["dump", "-d", "0", arg(&cut), arg(&again)])
            .code(0)
            .says(&["warning"]);
        common::incomplete_but_equal(&again, lab.vmcore());
    }
}

#[test]
fn damaged_pages_are_counted_and_the_others_are_read() {
    let lab = Lab::new();
    let dump = lab.dump(
        "dump",
        &["-d", "0", "-c", "zlib", "--without", "equal-pages"],
    );
    let mut bytes = fs::read(&dump).unwrap();
    let pages: u64 = {
        let headers = KdumpHeaders::read(&bytes).unwrap();
        let outcome = run(&["verify", "--json", arg(&dump)]).code(0);
        let report: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
        assert!(!headers.incomplete);
        report["pages"].as_u64().unwrap()
    };
    // Corrupts the zlib headers of three pages.
    for frame in [0x601, 0x480, 0x700] {
        let data = field(&bytes, descriptor_of(&bytes, frame)) as usize;
        bytes = with(&bytes, data, &[0; 8]);
    }
    let outcome = run(&["verify", "--json", arg(&lab.file("rotten", &bytes))]);
    let outcome = outcome.code(1).says(&[
        "rotten is damaged",
        "3 damaged pages",
        &format!("page frame {}", 0x480),
        "zlib",
    ]);
    let report: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(report["damaged"], 3);
    assert_eq!(report["pages"], pages - 3);
    assert_eq!(report["complete"], false);
}

#[test]
fn stalled_dump_reports_what_it_waits_for() {
    let lab = Lab::new();
    let pipe = lab.path("pipe");
    make_pipe(&pipe);
    let arguments = ["dump", "-d", "0", "-c", "none", "-f", "flattened"];
    let mut child = command(&arguments);
    child.args(["--stall-warning", "1", arg(lab.vmcore()), arg(&pipe)]);
    let mut child = child.spawn().unwrap();
    // Nothing is read from the pipe, which holds 64 KiB, until the warning appears.
    let mut pipe = fs::File::open(pipe).unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut warning = String::new();
    while !warning.contains("no progress for") {
        assert!(stderr.read_line(&mut warning).unwrap() > 0, "no warning");
    }
    assert!(pipe.read_to_end(&mut Vec::new()).unwrap() > 64 << 10);
    stderr.read_to_string(&mut warning).unwrap();
    assert!(child.wait().unwrap().success());
    for part in ["pipe", "not return", "progress resumed after"] {
        assert!(warning.contains(part), "no {part:?} in: {warning}");
    }
}

#[test]
fn dump_works_without_standard_error() {
    let lab = Lab::new();
    let mut core = fs::read(lab.vmcore()).unwrap();
    // The source causes a warning, because its last page is truncated.
    core.truncate(core.len() - 4096);
    let (cut, output) = (lab.file("cut", &core), lab.path("out"));
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let status = command(&["dump", "-d", "0", arg(&cut), arg(&output)])
        .stderr(full())
        .status();
    assert_eq!(status.unwrap().code(), Some(0));
    let status = command(&["verify", arg(&output)]).stderr(full()).status();
    assert_eq!(status.unwrap().code(), Some(1));
}
