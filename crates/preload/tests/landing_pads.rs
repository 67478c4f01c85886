//! A thread can be cancelled at any instruction of the functions that programs call (see
//! `src/cancellation.rs`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::collections::HashMap;
use std::process::Command;

/// The replaced system calls. Allocators are not among them: a program must not cancel a thread
/// asynchronously in an allocator.
const CALLS: [&str; 10] = [
    "madvise",
    "mlock",
    "mlock2",
    "mlockall",
    "munlockall",
    "munmap",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
];

fn output(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command.args(arguments).arg(common::library()).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

fn number(hexadecimal: &str) -> u64 {
    u64::from_str_radix(hexadecimal, 16).unwrap()
}

#[test]
fn replaced_calls_have_no_landing_pads() {
    let symbols = output("nm", &["-D", "--defined-only"]);
    let symbols = symbols.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.nth(1)?))
    });
    let calls: HashMap<u64, &str> = symbols
        .filter(|(_, name)| CALLS.contains(name))
        .map(|(address, name)| (number(address), name))
        .collect();
    assert_eq!(calls.len(), CALLS.len());

    // A frame description refers to a common information entry. An entry with an L in its
    // augmentation is for functions with a table of landing pads.
    let frames = output("readelf", &["--wide", "--debug-dump=frames"]);
    let (mut entry, mut augmentations, mut checked) = ("", HashMap::new(), 0);
    for line in frames.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [offset, _, _, "CIE"] => entry = offset,
            ["Augmentation:", text] => drop(augmentations.insert(entry, text)),
            [_, _, _, "FDE", common, range] => {
                let start = range.trim_start_matches("pc=").split("..").next().unwrap();
                if let Some(name) = calls.get(&number(start)) {
                    let augmentation = augmentations[common.trim_start_matches("cie=")];
                    assert!(!augmentation.contains('L'), "{name}: {augmentation}");
                    checked += 1;
                }
            }
            _ => {}
        }
    }
    assert_eq!(checked, CALLS.len());
}
