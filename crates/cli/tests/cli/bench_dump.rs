//! `bigiron bench dump` on a small machine: its output can be parsed, and the dumps of
//! bigiron and makedumpfile agree.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bigiron_synth::{ElfShape, Synth};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Lab, arg, command, finish, run};

/// A kernel that Debian's makedumpfile 1.7.2 supports.
const MACHINE: &str = "kernel 6.1
    ram 0x0-0x9f 0x100-0x1fff
    pages 0x200 free order=9
    pages 0x400 slab n=64 fill=random
    pages 0x480 cache n=16 ; 0x490 cache private n=4 dirty fill=random
    pages 0x500 slab n=32 fill=zero ; 0x520 slab n=32 fill=const:7
    pages 0x600 thp ; 0x800 hugetlb order=9 ; 0xa00 slab order=2 n=3";

/// A lab with a core that makedumpfile can open, and a directory for dumps.
fn lab() -> Lab {
    let lab = Lab::new();
    let machine = Synth::from_text(MACHINE).unwrap();
    lab.file("core", &machine.elf(&ElfShape::vmcore()));
    fs::create_dir(lab.path("dumps")).unwrap();
    lab
}

/// Returns the arguments of `bigiron bench dump`, including `more`.
fn arguments(lab: &Lab, more: &[&str]) -> Vec<String> {
    let (core, dumps, results) = (lab.path("core"), lab.path("dumps"), lab.path("results"));
    let mut all: Vec<String> = [
        "bench",
        "dump",
        arg(&core),
        "-j2",
        "--directory",
        arg(&dumps),
    ]
    .map(str::to_owned)
    .into();
    all.extend(["--results".to_owned(), arg(&results).to_owned()]);
    all.extend(more.iter().map(|word| (*word).to_owned()));
    all
}

fn files_in(lab: &Lab, directory: &str) -> usize {
    fs::read_dir(lab.path(directory)).map_or(0, Iterator::count)
}

fn measured(more: &[&str]) -> (Lab, Value) {
    let lab = lab();
    let arguments = arguments(&lab, more);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = run(&words).code(0);
    assert_eq!(files_in(&lab, "dumps"), 0, "dumps are left");
    let printed = serde_json::from_str(&outcome.text()).unwrap();
    (lab, printed)
}

#[test]
fn every_row_is_measured_and_no_two_dumps_differ() {
    let (lab, printed) = measured(&[
        "--runs",
        "1",
        "--codecs",
        "none,zlib,zstd",
        "--levels",
        "31",
        "--json",
    ]);
    let kept = fs::read_dir(lab.path("results")).unwrap().next().unwrap();
    let kept = fs::read_to_string(kept.unwrap().path()).unwrap();
    let results = &printed["results"];
    assert_eq!(
        serde_json::from_str::<Value>(&kept).unwrap()["results"],
        *results
    );
    let rows = results["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    let makedumpfile = &results["programs"][0];
    assert_eq!(makedumpfile["name"], "makedumpfile");
    let installed = !makedumpfile["path"].is_null();
    if !installed {
        eprintln!("skipped: makedumpfile's dumps, since it is not installed");
    }
    for row in rows {
        let codec = row["codec"].as_str().unwrap();
        assert!(row["all_helpers"]["median"]["seconds"].as_f64().unwrap() > 0.0);
        assert!(row["all_helpers"]["median"]["peak_bytes"].as_u64().unwrap() > 1 << 20);
        assert!(row["bare"]["all"].as_f64().unwrap() > 0.0, "{row}");
        let agreements = row["agreements"].as_array().unwrap();
        for agreement in agreements {
            assert!(agreement["error"].is_null(), "{agreement}");
            assert!(agreement["equal"].as_u64().unwrap() > 64, "{agreement}");
            for others in ["different", "only_first", "only_second", "unreadable"] {
                assert_eq!(agreement[others]["count"], 0, "{row}");
            }
        }
        let theirs = row["makedumpfile"].as_array().unwrap();
        if installed && ["none", "zlib"].contains(&codec) {
            assert_eq!(agreements.len(), 2, "{row}");
            assert!(theirs[0]["median"]["output_bytes"].as_u64().unwrap() > 0);
            assert!(row["ratios"]["best_to_all_helpers"].as_f64().unwrap() > 0.0);
        } else if theirs.is_empty() {
            assert!(row["makedumpfile_absent"].is_string(), "{row}");
        }
    }
}

#[test]
fn core_that_makedumpfile_cannot_open_is_measured_without_it() {
    if Command::new("makedumpfile").arg("-v").output().is_err() {
        eprintln!("skipped: makedumpfile is not installed");
        return;
    }
    let lab = lab();
    let machine = Synth::from_text(MACHINE).unwrap();
    lab.file("core", &machine.elf(&ElfShape::qemu()));
    let arguments = arguments(&lab, &["--runs", "1", "--codecs", "lzo", "--levels", "31"]);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = run(&words).code(0).text();
    let reason = "lzo -d 31: makedumpfile cannot dump this source (exit status 1: ";
    assert!(text.contains(reason), "{text}");
    assert!(text.contains("as QEMU writes it"), "{text}");
}

#[test]
fn signal_ends_the_benchmark_and_leaves_no_dump() {
    let lab = lab();
    let arguments = arguments(&lab, &["--runs", "60000", "--codecs", "zstd"]);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let child = command(&words).spawn().unwrap();
    let begin = Instant::now();
    while files_in(&lab, "dumps") == 0 && begin.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(100));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    finish(child).code(143).says(&["interrupted"]);
    assert_eq!(files_in(&lab, "dumps"), 0);
    assert_eq!(files_in(&lab, "results"), 0);
}

#[test]
fn invalid_arguments_are_rejected() {
    let lab = lab();
    let core = lab.path("core");
    for wrong in [["--codecs", "gzip"], ["--levels", "32"], ["--runs", "0"]] {
        let words = ["bench", "dump", arg(&core), wrong[0], wrong[1]];
        run(&words).code(2);
    }
    run(&["bench", "dump", "/dev/null"])
        .code(1)
        .says(&["/dev/null"]);
}
