//! Size and time of a dump of the running machine.
//!
//! All pages are counted by the filter of the dump, once. Then a sample of the pages that each
//! level keeps is dumped without an output: by the same code, so that whatever it does with zero
//! pages, equal pages and chunks is in the result. Sizes and times grow with the pages.

use std::time::Duration;

use anyhow::Context;
use bigiron_dump::{
    DumpOptions, DumpOutput, Format, OutputTarget, Progress, Sample, Subject, Summary, dump,
};
use bigiron_format::PageFrameRange;
use bigiron_format::codec::{Codec, Compression};
use bigiron_helpers::Stop;
use bigiron_kernel::DumpLevel;
use serde::Serialize;

/// Pages that a sample has, about: 256 MiB, which take every codec some seconds at most.
const SAMPLED_PAGES: u64 = 64 << 10;
/// Sections that a sample has, about: the struct pages of 256 GiB.
const SAMPLED_SECTIONS: u64 = 2048;
/// Without a measurement, a disk is assumed to take this many bytes per second.
pub const ASSUMED_SPEED: f64 = 200e6;

/// What the estimates depend on.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// CPUs of the capture kernel.
    pub capture_cpus: usize,
    /// Bytes per second that the target takes; `None` if it was not measured.
    pub write_speed: Option<f64>,
    /// Memory of the capture kernel, which is in this machine's and will not be in the dump.
    pub capture_memory: [Option<PageFrameRange>; 2],
}

/// All estimates.
#[derive(Clone, Debug, Serialize)]
pub struct Estimates {
    /// Bytes of a page.
    pub page_size: u64,
    /// Page frames of RAM.
    pub ram_pages: u64,
    /// Page frames of each class that a dump level may exclude.
    pub classes: Classes,
    /// One for each level and format; that of the settings first.
    pub dumps: Vec<Estimate>,
    /// Bytes per second that the target takes.
    pub write_speed: f64,
    /// True if that was measured.
    pub write_speed_measured: bool,
    /// CPUs of the capture kernel.
    pub capture_cpus: usize,
    /// Warnings of the filter.
    pub warnings: Vec<String>,
}

/// Page frames by the classes of dump levels.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Classes {
    /// Page cache without private data: 2.
    pub cache: u64,
    /// Page cache with private data: 4.
    pub cache_private: u64,
    /// User memory: 8.
    pub user: u64,
    /// Free memory: 16.
    pub free: u64,
    /// What no level excludes: the kernel's.
    pub others: u64,
}

/// Size and time of one dump.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// Dump level.
    pub dump_level: u8,
    /// Format.
    pub format: &'static str,
    /// Codec and level.
    pub compression: Option<String>,
    /// Pages that are kept.
    pub pages: u64,
    /// Pages of the sample.
    pub sampled_pages: u64,
    /// Bytes of the dump.
    pub bytes: u64,
    /// Seconds of the dump in the capture kernel.
    pub seconds: f64,
    /// Seconds of the CPUs for the filter.
    pub filter_seconds: f64,
    /// Seconds of the CPUs for the pages.
    pub cpu_seconds: f64,
    /// Seconds of the disk.
    pub write_seconds: f64,
}

impl Classes {
    fn of(summary: &Summary, capture_pages: u64) -> Self {
        let excluded = &summary.excluded;
        Self {
            cache: excluded.cache,
            cache_private: excluded.cache_private,
            user: excluded.user,
            free: excluded.free,
            others: summary.ram.saturating_sub(excluded.total() + capture_pages),
        }
    }

    /// Pages that `level` keeps, zero pages included.
    fn kept(&self, level: DumpLevel) -> u64 {
        let kept_without = |bits: u8, count: u64| match level.number() & bits {
            0 => count,
            _ => 0,
        };
        self.others
            + kept_without(2 | 4, self.cache)
            + kept_without(4, self.cache_private)
            + kept_without(8, self.user)
            + kept_without(16, self.free)
    }
}

/// Makes the estimates for each of `levels` and `formats`.
///
/// # Errors
/// A page that is needed cannot be read, or a signal came.
pub fn estimate(
    subject: &Subject,
    options: &DumpOptions,
    wanted: &[(DumpLevel, Format)],
    conditions: Conditions,
    stop: &Stop,
) -> anyhow::Result<Estimates> {
    let dry = Dry {
        subject,
        options,
        stop,
    };
    let plain = Format::kdump(Compression::new(Codec::None));
    let counted = dry.run(DumpLevel::MAX, plain, Sample::NONE)?;
    // No class: the kernel reserved it.
    let ranges = conditions.capture_memory.iter().flatten();
    let capture_pages: u64 = ranges.map(|range| range.end.0 - range.start.0).sum();
    let classes = Classes::of(&counted, capture_pages);
    let threads = counted.helpers.max(1) as f64;
    let filter_seconds = seconds(&counted, "filter") * threads;
    let mut dumps = Vec::new();
    for (level, format) in wanted {
        let pages = classes.kept(*level);
        let sample = sample(subject, pages).without(conditions.capture_memory);
        let none = dry.run(*level, *format, Sample::NONE)?;
        let some = dry.run(*level, *format, sample)?;
        let fixed = none.bytes_out as f64;
        // What a level counts as zero is kept: it was read.
        let share = pages as f64 / (some.dumped + dropped_zero(&some, *format)).max(1) as f64;
        let of_sample = (some.bytes_out as f64 - fixed).max(0.0);
        let bytes = fixed + of_sample * share;
        let copied = (seconds(&some, "copy") - seconds(&none, "copy")).max(0.0);
        let cpu_seconds = copied * some.helpers.max(1) as f64 * share;
        let speed = conditions.write_speed.unwrap_or(ASSUMED_SPEED).max(1.0);
        let write_seconds = bytes / speed;
        let cpus = conditions.capture_cpus.max(1) as f64;
        dumps.push(Estimate {
            dump_level: level.number(),
            format: format.name(),
            compression: format.compression(),
            pages,
            sampled_pages: some.dumped,
            bytes: bytes as u64,
            // Pages are compressed while others are written.
            seconds: filter_seconds / cpus + (cpu_seconds / cpus).max(write_seconds),
            filter_seconds,
            cpu_seconds,
            write_seconds,
        });
    }
    Ok(Estimates {
        page_size: counted.page_size,
        ram_pages: counted.ram.saturating_sub(capture_pages),
        classes,
        dumps,
        write_speed: conditions.write_speed.unwrap_or(ASSUMED_SPEED),
        write_speed_measured: conditions.write_speed.is_some(),
        capture_cpus: conditions.capture_cpus,
        warnings: counted.warnings,
    })
}

/// Zero pages that are no longer counted as dumped.
fn dropped_zero(summary: &Summary, format: Format) -> u64 {
    match format {
        Format::Elf { .. } => summary.zero,
        _ => 0,
    }
}

/// Chooses the sample of a dump that keeps `pages` pages.
fn sample(subject: &Subject, pages: u64) -> Sample {
    let sections = subject.source().sections().count() as u64;
    let one_section_in = (sections / SAMPLED_SECTIONS).max(1);
    Sample::one_in(one_section_in, pages / one_section_in / SAMPLED_PAGES)
}

fn seconds(summary: &Summary, phase: &str) -> f64 {
    let mut phases = summary.phases.iter();
    let found = phases.find(|found| found.name == phase);
    found
        .map_or(Duration::ZERO, |found| found.time)
        .as_secs_f64()
}

/// Dumps without an output.
struct Dry<'a, 's> {
    subject: &'a Subject<'s>,
    options: &'a DumpOptions,
    stop: &'a Stop,
}

impl Dry<'_, '_> {
    fn run(&self, level: DumpLevel, format: Format, sample: Sample) -> anyhow::Result<Summary> {
        let output = DumpOutput::whole(format, OutputTarget::Nowhere);
        let options = DumpOptions {
            level,
            sample: Some(sample),
            ..self.options.clone()
        };
        let made = dump(self.subject, &output, &options, &Progress::new(), self.stop);
        made.with_context(|| format!("cannot estimate a dump at level {}", level.number()))
    }
}
