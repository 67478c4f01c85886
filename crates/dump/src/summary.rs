//! What was done, for people and programs.

use std::fs;
use std::time::Duration;

use bigiron_format::PageFrame;
use bigiron_format::codec::Compression;
use bigiron_kernel::{CacheStatistics, ExcludedCounts};

/// How long a phase took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseTime {
    /// `filter`, `copy`, `finish`.
    pub name: &'static str,
    /// Wall-clock time.
    pub time: Duration,
}

/// Who waited for whom, where there was a writer beside the helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Time that helpers waited for the output, all of them added up.
    pub for_output: Duration,
    /// Time that the writer waited for helpers.
    pub for_helpers: Duration,
}

/// What a dump holds and what it cost.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Bytes of a page.
    pub page_size: u64,
    /// The page frame behind the last that the dump may have.
    pub end_frame: PageFrame,
    /// Page frames of RAM.
    pub ram: u64,
    /// Page frames left out, by class.
    pub excluded: ExcludedCounts,
    /// Page frames kept whose bytes are all zero.
    pub zero: u64,
    /// Whether the dump level counts zero pages as left out.
    pub zero_excluded: bool,
    /// Page frames kept, zero pages among them.
    pub dumped: u64,
    /// Page frames that an ELF core has bytes of: those kept, and those of gaps
    /// too short for a program header of their own.
    pub in_elf: Option<u64>,
    /// Page frames whose bytes are stored once for several frames.
    pub shared: u64,
    /// Page frames that could not be read and are marked as lost.
    pub lost: u64,
    /// The first of them.
    pub lost_frames: Vec<PageFrame>,
    /// Struct pages that the filter decided about.
    pub struct_pages: u64,
    /// Bytes of pages that were read for copying.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Helper threads.
    pub helpers: usize,
    /// How long each of them copied, wall-clock time, in any order; of a split
    /// dump those of all parts.
    pub helper_times: Vec<Duration>,
    /// The page cache for translation.
    pub cache: CacheStatistics,
    /// Times of the phases.
    pub phases: Vec<PhaseTime>,
    /// The most memory that was in use, in bytes.
    pub peak_memory: u64,
    /// Who waited for whom; `None` if helpers wrote themselves.
    pub waits: Option<Waits>,
    /// How many units of pages were compressed how, if that was adaptive.
    pub adaptive: Vec<(Compression, u64)>,
    /// What people should know.
    pub warnings: Vec<String>,
}

/// The most physical memory this process ever had (VmHWM of
/// /proc/self/status), in bytes.
pub fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    peak_memory_in(&status).unwrap_or(0)
}

/// VmHWM in the text of a /proc/PID/status, in bytes.
pub fn peak_memory_in(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
