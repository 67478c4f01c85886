//! How much memory a dump takes, by the size of the machine and the number of
//! helpers.
//!
//! A case is one dump of a [`GeneratedMachine`] by the whole engine, in a
//! process of its own: the peak of a process never goes down again, so two
//! cases in one would tell nothing.
//!
//! What is left out of the work at large sizes is only what repeats:
//! - The copy takes a sample of about `SAMPLED_SECTIONS` sections; in the
//!   others the source lacks what the dump would keep. The filter has all
//!   its work, and what it finds is held against the generator's own counts.
//! - Beyond `WHOLE_FILTER` only a sample of the sections has struct pages,
//!   unless all are wanted.
//!
//! Everything that is kept for each section, and both bitmaps of the output
//! file, have their full size in any case.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use bigiron_dump::{DumpOptions, DumpOutput, Format, Progress, Summary, dump, peak_memory};
use bigiron_helpers::Stop;
use bigiron_kernel::{Kernel, MemorySource, PhysicalMemory};
use serde::{Deserialize, Serialize};

use crate::generated::{GeneratedMachine, LARGEST, MachineOptions};

/// What a dump with one helper may take, in bytes.
pub const ALLOWED: u64 = 24 << 20;
/// What each further helper may take.
pub const ALLOWED_PER_HELPER: u64 = 4 << 20;
/// Bytes of a memory section.
const SECTION: u64 = 128 << 20;
/// Sections whose pages are copied.
const SAMPLED_SECTIONS: u64 = 32;
/// The filter looks at every struct page of machines up to this size.
const WHOLE_FILTER: u64 = 1 << 40;

/// One dump to measure.
#[derive(Clone, Copy, Debug)]
pub struct MemoryCase {
    /// Bytes of RAM.
    pub size: u64,
    /// Have all struct pages, whatever the size.
    pub every_struct_page: bool,
}

/// What one dump took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemoryResult {
    /// Bytes of RAM.
    pub size: u64,
    /// Helper threads.
    pub helpers: usize,
    /// The most memory that was in use, in bytes: code, stacks, everything.
    pub peak: u64,
    /// The same before the dump began: the program and the generator.
    pub peak_before: u64,
    /// What it may take.
    pub allowed: u64,
    /// Struct pages that the filter decided about.
    pub struct_pages: u64,
    /// Pages that were copied.
    pub copied_pages: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Seconds from beginning to end.
    pub seconds: f64,
    /// Only every so many-th section had struct pages.
    pub struct_pages_every: u64,
    /// Only every so many-th section had pages to copy.
    pub copied_every: u64,
}

impl MemoryResult {
    /// Bytes above what is allowed; `None` if it is within.
    pub fn over(&self) -> Option<u64> {
        self.peak
            .checked_sub(self.allowed)
            .filter(|excess| *excess > 0)
    }
}

impl MemoryCase {
    fn machine(self) -> GeneratedMachine {
        let struct_pages_every = if self.every_struct_page {
            1
        } else {
            (self.size / WHOLE_FILTER).max(1)
        };
        GeneratedMachine::new(MachineOptions {
            kept_data_every: (self.size / SECTION / SAMPLED_SECTIONS).max(1),
            struct_pages_every,
            ..MachineOptions::whole(self.size)
        })
    }

    /// Makes the dump in this process, in a temporary directory below
    /// `directory`.
    pub fn run(
        self,
        format: Format,
        options: &DumpOptions,
        directory: &Path,
    ) -> anyhow::Result<MemoryResult> {
        ensure!(
            self.size <= LARGEST,
            "{} bytes are more than the largest generated machine has, {LARGEST}",
            self.size
        );
        let machine = self.machine();
        check_space(directory, &machine)?;
        let place = tempfile::tempdir_in(directory)
            .with_context(|| format!("{}: cannot make a directory in it", directory.display()))?;
        let output = DumpOutput::file(format, place.path().join("vmcore"));
        let peak_before = peak_memory();
        let begin = Instant::now();
        let cache_pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
        let kernel = Kernel::find_in(&machine, machine.path(), None, options.io, cache_pages)?;
        let summary = dump(&kernel, &output, options, &Progress::new(), &Stop::new())?;
        check_counts(&machine, &summary)?;
        let used = machine.options();
        Ok(MemoryResult {
            size: used.size,
            helpers: summary.helpers,
            peak: summary.peak_memory,
            peak_before,
            allowed: ALLOWED + ALLOWED_PER_HELPER * (summary.helpers as u64).saturating_sub(1),
            struct_pages: summary.struct_pages,
            copied_pages: summary.dumped,
            bytes_out: summary.bytes_out,
            seconds: begin.elapsed().as_secs_f64(),
            struct_pages_every: used.struct_pages_every,
            copied_every: used.kept_data_every,
        })
    }
}

/// The dump must have found what the generator made, or its memory tells
/// nothing.
fn check_counts(machine: &GeneratedMachine, summary: &Summary) -> anyhow::Result<()> {
    let (made, found) = (machine.present_counts(), &summary.excluded);
    let made = [
        made.kernel,
        made.free,
        made.cache,
        made.cache_private,
        made.user,
    ];
    let found = [
        summary.dumped,
        found.free,
        found.cache,
        found.cache_private,
        found.user,
    ];
    ensure!(
        summary.ram == machine.ram_frames() && made == found,
        "the dump's counts are not the generator's: {found:?} of {}, not {made:?} of {} \
         (kept, free, cache, cache with private data, user)",
        summary.ram,
        machine.ram_frames()
    );
    ensure!(
        summary.warnings.is_empty(),
        "the dump warned: {}",
        summary.warnings.join("; ")
    );
    Ok(())
}

/// Both bitmaps, and pages that might not get smaller.
fn check_space(directory: &Path, machine: &GeneratedMachine) -> anyhow::Result<()> {
    let needed = machine.end_frame().0 / 4 + machine.present_counts().kernel * (4096 + 24);
    let status = rustix::fs::statvfs(directory)
        .with_context(|| format!("{}: cannot look at its file system", directory.display()))?;
    let free = status.f_bavail.saturating_mul(status.f_frsize);
    ensure!(
        free >= needed,
        "{}: has {} MiB free, and the dump may take {} MiB; give another --directory",
        directory.display(),
        free >> 20,
        needed >> 20
    );
    Ok(())
}

/// The directory for dumps when none is given.
pub fn default_directory() -> PathBuf {
    std::env::temp_dir()
}
