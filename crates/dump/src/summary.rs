//! The result of a dump, for people and programs.

use std::fs;
use std::time::Duration;

use bigiron_format::PageFrame;
use bigiron_format::codec::Compression;
use bigiron_kernel::{CacheStatistics, ExcludedCounts};

/// Duration of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseTime {
    /// `filter`, `copy`, `finish`.
    pub name: &'static str,
    /// Wall-clock time.
    pub time: Duration,
}

/// Waiting times of the helpers and of a separate writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Time that helpers waited for the output, summed over all helpers.
    pub for_output: Duration,
    /// Time that the writer waited for helpers.
    pub for_helpers: Duration,
}

/// Content and cost of a dump.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Bytes of a page.
    pub page_size: u64,
    /// The page frame after the last one that the dump may contain.
    pub end_frame: PageFrame,
    /// Page frames of RAM.
    pub ram: u64,
    /// Excluded page frames, by class.
    pub excluded: ExcludedCounts,
    /// Page frames that are kept although the level excludes their class, because the kernel itself
    /// uses them.
    pub guarded: u64,
    /// Page frames that are kept because of a rule.
    pub kept_by_rules: u64,
    /// Page frames that are kept without their contents because of a rule.
    pub blanked_by_rules: u64,
    /// Kept page frames whose bytes are all zero.
    pub zero: u64,
    /// True if the dump level counts zero pages as excluded.
    pub zero_excluded: bool,
    /// Kept page frames, including zero pages.
    pub dumped: u64,
    /// Page frames whose bytes are in an ELF core: kept ones, and those of gaps too short for a
    /// program header of their own.
    pub in_elf: Option<u64>,
    /// Page frames that share their stored bytes with other frames.
    pub shared: u64,
    /// Page frames that could not be read and are marked as lost.
    pub lost: u64,
    /// The first error of the source's disk; `None` if lost pages have other reasons.
    pub unreadable: Option<String>,
    /// The first of the lost page frames.
    pub lost_frames: Vec<PageFrame>,
    /// Struct pages that the filter classified.
    pub struct_pages: u64,
    /// Bytes of pages read for copying.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Helper threads.
    pub helpers: usize,
    /// Wall-clock copying time of each helper, in any order; for a split dump, of the helpers
    /// of all parts.
    pub helper_times: Vec<Duration>,
    /// Statistics of the page cache used for address translation.
    pub cache: CacheStatistics,
    /// Durations of the phases.
    pub phases: Vec<PhaseTime>,
    /// Peak memory usage, in bytes.
    pub peak_memory: u64,
    /// Waiting times; `None` if helpers wrote themselves.
    pub waits: Option<Waits>,
    /// Number of batches of each compression, if it was adaptive.
    pub adaptive: Vec<(Compression, u64)>,
    /// Warnings for people.
    pub warnings: Vec<String>,
}

/// Returns the peak physical memory of this process (VmHWM of /proc/self/status), in bytes.
pub fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    peak_memory_in(&status).unwrap_or(0)
}

/// Returns VmHWM from the text of a /proc/PID/status, in bytes.
pub fn peak_memory_in(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
