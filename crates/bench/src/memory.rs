//! The memory used by a dump, by the size of the machine and the number of helpers.
//!
//! A case is one dump of a [`GeneratedMachine`] by the whole engine, in a separate process: the
//! peak of a process never decreases, so a second case in the same process would measure
//! nothing.
//!
//! At large sizes only repeated work is omitted:
//! - The copy processes a sample of about `SAMPLED_SECTIONS` sections; in the others the source lacks
//!   the pages that the dump would keep. The filter does all its work, and its results are checked
//!   against the generator's own counts.
//! - Beyond `WHOLE_FILTER` only a sample of the sections has struct pages, unless all are requested.
//!
//! All data kept per section, and both bitmaps of the output file, always have their full size.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use bigiron_dump::{DumpOptions, DumpOutput, Format, Progress, Summary, dump, peak_memory};
use bigiron_helpers::Stop;
use bigiron_kernel::{Kernel, MemorySource, PhysicalMemory};
use serde::{Deserialize, Serialize};

use crate::generated::{GeneratedMachine, LARGEST, MachineOptions};

/// Memory allowed for a dump with one helper, in bytes.
pub const ALLOWED: u64 = 24 << 20;
/// Memory allowed for each further helper, in bytes.
pub const ALLOWED_PER_HELPER: u64 = 4 << 20;
/// Size of a memory section in bytes.
const SECTION: u64 = 128 << 20;
/// Number of sections whose pages are copied.
const SAMPLED_SECTIONS: u64 = 32;
/// Size in bytes of the largest machine of which the filter reads every struct page.
const WHOLE_FILTER: u64 = 1 << 40;

/// A dump to measure.
#[derive(Clone, Copy, Debug)]
pub struct MemoryCase {
    /// Size of RAM in bytes.
    pub size: u64,
    /// True to generate all struct pages, whatever the size.
    pub every_struct_page: bool,
}

/// The resources used by one dump.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemoryResult {
    /// Size of RAM in bytes.
    pub size: u64,
    /// Helper threads.
    pub helpers: usize,
    /// Peak memory of the process in bytes, including code and stacks.
    pub peak: u64,
    /// Peak memory in bytes before the dump began: the program and the generator.
    pub peak_before: u64,
    /// Memory allowed, in bytes.
    pub allowed: u64,
    /// Number of struct pages classified by the filter.
    pub struct_pages: u64,
    /// Number of pages copied.
    pub copied_pages: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Only every n-th section had struct pages.
    pub struct_pages_every: u64,
    /// Only every n-th section had pages to copy.
    pub copied_every: u64,
}

impl MemoryResult {
    /// Returns the number of bytes above the allowance; `None` if the dump stayed within it.
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
            "a machine of {} bytes is larger than the maximum of {LARGEST} bytes",
            self.size
        );
        let machine = self.machine();
        check_space(directory, &machine)?;
        let place = tempfile::tempdir_in(directory)
            .with_context(|| format!("{}: cannot create a directory in it", directory.display()))?;
        let output = DumpOutput::file(format, place.path().join("vmcore"));
        let peak_before = peak_memory();
        let begin = Instant::now();
        let cache_pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
        let kernel = Kernel::find_in(&machine, machine.path(), None, options.io, cache_pages)?;
        let summary = dump(
            &kernel.into(),
            &output,
            options,
            &Progress::new(),
            &Stop::new(),
        )?;
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

/// Checks that the dump found the pages that the generator made; otherwise its memory use means
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
        "the dump's counts differ from the generator's: {found:?} of {}, expected {made:?} of {} \
         (kept, free, cache, cache with private data, user)",
        summary.ram,
        machine.ram_frames()
    );
    ensure!(
        summary.warnings.is_empty(),
        "the dump printed warnings: {}",
        summary.warnings.join("; ")
    );
    Ok(())
}

/// Checks that the file system has room for both bitmaps and for pages that may not compress.
fn check_space(directory: &Path, machine: &GeneratedMachine) -> anyhow::Result<()> {
    let needed = machine.end_frame().0 / 4 + machine.present_counts().kernel * (4096 + 24);
    let status = rustix::fs::statvfs(directory).with_context(|| {
        format!(
            "{}: cannot read the free space of the file system",
            directory.display()
        )
    })?;
    let free = status.f_bavail.saturating_mul(status.f_frsize);
    ensure!(
        free >= needed,
        "{}: {} MiB are free, and the dump may need {} MiB; choose another --directory",
        directory.display(),
        free >> 20,
        needed >> 20
    );
    Ok(())
}

/// Returns the default directory for dumps.
pub fn default_directory() -> PathBuf {
    std::env::temp_dir()
}
