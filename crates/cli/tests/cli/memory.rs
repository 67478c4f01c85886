//! Memory does not grow with the machine. Each dump is made by a process of
//! its own, which tells its peak.

use std::process::Command;

use bigiron_bench::memory::MemoryResult;

/// What dumps of machines of different sizes may differ by, in bytes: two bytes
/// for each section, and how the allocator lays things out.
const MAX_GROWTH: u64 = 2 << 20;
/// A stream keeps some of its bitmaps in memory, up to a limit.
const MAX_GROWTH_OF_STREAM: u64 = 6 << 20;

fn measure(arguments: &[&str]) -> Vec<MemoryResult> {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bigiron"))
        .args(["bench", "memory", "--json", "--directory"])
        .arg(directory.path())
        .args(arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_growth_below(limit: u64, arguments: &[&str]) {
    let results = measure(arguments);
    let [small, large] = &results[..] else {
        panic!("two dumps were asked for: {results:?}");
    };
    assert!(large.size >= 64 * small.size);
    assert_eq!(large.struct_pages, large.size / 4096);
    for result in &results {
        assert!(result.copied_pages > 20_000, "{result:?}");
        assert!(result.peak <= result.allowed, "{result:?}");
    }
    assert!(large.peak < small.peak + limit, "{results:?}");
}

#[test]
fn a_dump_of_64_times_the_memory_takes_no_more_memory() {
    assert_growth_below(MAX_GROWTH, &["--sizes", "1G,64G", "--threads", "1"]);
}

#[test]
fn a_stream_keeps_bitmaps_only_up_to_a_limit() {
    let arguments = ["--sizes", "1G,256G", "--threads", "1", "-f", "flattened"];
    assert_growth_below(MAX_GROWTH_OF_STREAM, &arguments);
}

#[test]
fn further_helpers_take_no_more_than_they_may() {
    for result in measure(&["--sizes", "1G", "--threads", "1,4,8"]) {
        assert_eq!(result.allowed >> 20, 24 + 4 * (result.helpers as u64 - 1));
        assert!(result.peak <= result.allowed, "{result:?}");
        assert!(result.peak >= result.peak_before && result.peak_before > 1 << 20);
    }
}
