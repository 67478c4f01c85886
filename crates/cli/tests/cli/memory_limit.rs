//! Files that demand memory out of proportion to their size.

use std::fs;
use std::path::PathBuf;

use bigiron_format::vmdump::ChunkCompressor;

use crate::common::{Lab, Outcome, arg, finish, shell};

/// Size of a stream of the bomb, decompressed: the largest that a vmdump may have.
const STREAM: usize = 16 << 20;
/// Streams of the bomb, which decompress to 2 GiB.
const STREAMS: usize = 128;

/// Makes a vmdump in bzip2 of some KiB whose core has 2 GiB of headers.
fn bomb(lab: &Lab) -> PathBuf {
    let mut first = vec![0; STREAM];
    first[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let mut put = |at: usize, bytes: &[u8]| first[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &4_u16.to_le_bytes());
    put(18, &62_u16.to_le_bytes());
    put(20, &1_u32.to_le_bytes());
    put(32, &64_u64.to_le_bytes());
    for (at, value) in [(52, 64_u16), (54, 56), (56, 1)] {
        put(at, &value.to_le_bytes());
    }
    // One segment of one page, behind 2 GiB.
    let behind = (STREAM * STREAMS) as u64;
    put(64, &1_u32.to_le_bytes());
    for (at, value) in [(72, behind), (96, 4096_u64), (104, 4096)] {
        put(at, &value.to_le_bytes());
    }
    let compress = |bytes: &[u8]| {
        let mut compressor = ChunkCompressor::Bzip2;
        let mut out = vec![0; compressor.bound(bytes.len())];
        let len = compressor.compress(bytes, &mut out).unwrap();
        out.truncate(len);
        out
    };
    let mut bytes = compress(&first);
    bytes.extend(compress(&vec![0; STREAM]).repeat(STREAMS - 1));
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    lab.file("bomb", &bytes)
}

/// Runs the program with so little memory that exceeding its own limit would end it otherwise.
#[track_caller]
fn run_in_300_mb(arguments: &[&str]) -> Outcome {
    finish(shell("ulimit -v 300000;", arguments).spawn().unwrap())
}

#[test]
fn memory_limit_holds_while_a_dump_is_opened() {
    let lab = Lab::new();
    let bomb = bomb(&lab);
    for command in ["info", "dmesg", "verify"] {
        run_in_300_mb(&[command, "--memory-limit", "64M", arg(&bomb)])
            .code(1)
            .says(&["--memory-limit"]);
    }
    let output = lab.path("out");
    run_in_300_mb(&["dump", "--memory-limit", "64M", arg(&bomb), arg(&output)])
        .code(1)
        .says(&["bomb", "--memory-limit"]);
    assert!(
        fs::read_dir(lab.path(".")).unwrap().count() <= 2,
        "files are left"
    );
}
