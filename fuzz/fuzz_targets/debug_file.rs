//! Files with debug information: sections, relocations, symbols, and the lines of addresses.
#![no_main]

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use bigiron_inspect::source_lines::DebugFile;
use libfuzzer_sys::fuzz_target;

/// Where loaded sections of an object file begin, as `relocate::Layout` places them.
const FIRST: u64 = 1 << 20;
/// Addresses whose lines are asked for, in an object file and in a linked one.
const ADDRESSES: u64 = 64;
const LINKED: u64 = 0x40_1100;

fn file() -> File {
    // In memory, where there is such a place.
    tempfile::tempfile_in("/dev/shm")
        .or_else(|_| tempfile::tempfile())
        .expect("a temporary file")
}

fuzz_target!(|bytes: &[u8]| {
    let mut made = file();
    made.write_all(bytes).expect("written");
    made.rewind().expect("at its start");
    let Ok(opened) = DebugFile::open(&made, Path::new("fuzzed")) else {
        return;
    };
    let _ = opened.symbol("outer", None);
    let _ = opened.symbol("_stext", Some(0));
    for start in [0, FIRST, LINKED] {
        for address in start..start + ADDRESSES {
            let _ = opened.lines(address);
        }
    }
});
