//! The installed makedumpfile and vmcore-dmesg read the log described by the text.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::process::Command;

use bigiron_synth::{ElfShape, Synth};
use common::{Scratch, installed};

/// Returns the output of `makedumpfile --dump-dmesg`.
fn makedumpfile(dump: &[u8], options: &[&str]) -> Vec<u8> {
    let (input, output) = (Scratch::new("log-in"), Scratch::new("log-out"));
    std::fs::write(&input.0, dump).unwrap();
    let run = Command::new("makedumpfile")
        .args(options)
        .args([&input.0, &output.0])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(run.status.success(), "{said}");
    std::fs::read(&output.0).unwrap()
}

#[test]
fn makedumpfile_prints_the_described_log() {
    if !installed("makedumpfile", "-v") {
        return;
    }
    let cases = [
        "kernel 6.1\nram 0x0-0xfff\nlog lockless n=5",
        "kernel 6.1\nram 0x0-0xfff\nlog lockless n=200",
        "kernel 5.10 levels=5\nram 0x0-0xfff\nlog lockless n=300 text_bits=14 descriptor_bits=6",
        "kernel 5.4\nram 0x0-0xfff\nlog records n=5",
        "kernel 5.4\nram 0x0-0xfff\nlog records n=333",
        "kernel 4.19\nram 0x0-0xfff\nlog old-records n=100",
    ];
    for text in cases {
        let machine = Synth::from_text(text).unwrap();
        let said = makedumpfile(&machine.elf(&ElfShape::vmcore()), &["--dump-dmesg"]);
        let expected = machine.spec().log.as_ref().unwrap().expected_text(false);
        assert_eq!(
            String::from_utf8_lossy(&said),
            String::from_utf8_lossy(&expected),
            "{text}"
        );
    }
}

/// A release for which makedumpfile expects the old format, in a dump with that format.
#[test]
fn makedumpfile_prints_the_characters_of_old_kernels() {
    if !installed("makedumpfile", "-v") {
        return;
    }
    for count in [3, 500] {
        let text = format!("kernel 4.19\nram 0x0-0xfff\nlog text n={count}");
        let machine = Synth::from_text(&text).unwrap();
        let mut dump = machine.elf(&ElfShape::vmcore());
        let (new, old) = (b"4.19.0-synth", b"3.4.10-synth");
        for at in 0..dump.len() - new.len() {
            if dump[at..].starts_with(new) {
                dump[at..at + old.len()].copy_from_slice(old);
            }
        }
        let said = makedumpfile(&dump, &["--dump-dmesg"]);
        let expected = machine.spec().log.as_ref().unwrap().expected_text(false);
        assert_eq!(said, expected, "{text}");
    }
}

/// A ring that has not wrapped, for which makedumpfile's computation of `--partial-dmesg` is
/// correct.
#[test]
fn makedumpfile_prints_the_log_since_the_last_clear() {
    if !installed("makedumpfile", "-v") {
        return;
    }
    let cases = [
        "kernel 6.1\nram 0x0-0xfff\nlog lockless n=30 cleared=20",
        "kernel 5.4\nram 0x0-0xfff\nlog records n=20 cleared=11",
    ];
    let options = ["--dump-dmesg", "--partial-dmesg"];
    for text in cases {
        let machine = Synth::from_text(text).unwrap();
        let said = makedumpfile(&machine.elf(&ElfShape::vmcore()), &options);
        let log = machine.spec().log.as_ref().unwrap();
        assert_eq!(said, log.expected_text(true), "{text}");
        assert_ne!(said, log.expected_text(false), "{text}");
    }
}
