//! The memory used by a dump does not grow with the machine. Each dump is made by a separate
//! process, which reports its peak.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::process::Command;

use bigiron_bench::memory::MemoryResult;

/// Maximum difference between dumps of machines of different sizes, in bytes: two bytes per
/// section, and variation of the allocator.
const MAX_GROWTH: u64 = 2 << 20;
/// The same for a stream, which keeps some of its bitmaps in memory.
const MAX_GROWTH_OF_STREAM: u64 = 6 << 20;

fn measure(arguments: &[&str]) -> Vec<MemoryResult> {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bigiron-bench"))
        .args(["memory", "--json", "--directory"])
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
        panic!("expected the results of two dumps: {results:?}");
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
fn dump_of_64_times_the_memory_uses_no_more_memory() {
    assert_growth_below(MAX_GROWTH, &["--sizes", "1G,64G", "--threads", "1"]);
}

#[test]
fn stream_keeps_bitmaps_only_up_to_a_limit() {
    let arguments = ["--sizes", "1G,256G", "--threads", "1", "-f", "flattened"];
    assert_growth_below(MAX_GROWTH_OF_STREAM, &arguments);
}

#[test]
fn each_further_helper_stays_within_its_allowance() {
    for result in measure(&["--sizes", "1G", "--threads", "1,4,8"]) {
        assert_eq!(result.allowed >> 20, 24 + 4 * (result.helpers as u64 - 1));
        assert!(result.peak <= result.allowed, "{result:?}");
        assert!(result.peak >= result.peak_before && result.peak_before > 1 << 20);
    }
}
