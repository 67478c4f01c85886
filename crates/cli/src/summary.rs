//! The summary of a dump, as text and as JSON.

use std::fmt::Write as _;
use std::io;

use bigiron_dump::{DumpOptions, DumpOutput, OutputTarget, Subject, Summary};
use bigiron_kernel::Source;
use serde::Serialize;

use crate::size;
use crate::tell::{self, tell};

/// All fields of the summary.
#[derive(Serialize)]
pub struct DumpReport {
    source: String,
    source_kind: String,
    kernel: String,
    /// What runs on the machine, for people.
    #[serde(skip)]
    system: String,
    output: String,
    /// All files, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<String>,
    format: &'static str,
    compression: Option<String>,
    dump_level: u8,
    page_size: u64,
    pages: Pages,
    bytes_in: u64,
    bytes_out: u64,
    helpers: usize,
    /// Seconds that each helper copied.
    helper_seconds: Vec<f64>,
    struct_pages: u64,
    phases: Vec<PhaseReport>,
    seconds: f64,
    peak_memory: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<WaitsReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    adaptive: Vec<StepReport>,
    page_cache: CacheReport,
    source_complete: bool,
    lost_frames: Vec<u64>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Pages {
    ram: u64,
    dumped: u64,
    zero: u64,
    zero_left_out: bool,
    stored_once_for_several: u64,
    kept_against_class: u64,
    kept_by_rules: u64,
    blanked_by_rules: u64,
    excluded: Excluded,
    lost: u64,
}

#[derive(Serialize)]
struct Excluded {
    cache: u64,
    cache_private: u64,
    user: u64,
    free: u64,
    unaccepted: u64,
    hwpoison: u64,
    offline: u64,
    not_in_source: u64,
    device: u64,
    #[serde(skip_serializing_if = "is_zero")]
    other_owner: u64,
    #[serde(skip_serializing_if = "is_zero")]
    dom0: u64,
    struct_pages: u64,
    rules: u64,
}

#[derive(Serialize)]
struct PhaseReport {
    name: &'static str,
    seconds: f64,
}

/// Seconds, summed over all helpers.
#[derive(Serialize)]
struct WaitsReport {
    for_output: f64,
    for_helpers: f64,
}

/// Number of batches of pages for which a compression was chosen.
#[derive(Serialize)]
struct StepReport {
    compression: String,
    units: u64,
}

#[derive(Serialize)]
struct CacheReport {
    hits: u64,
    misses: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl DumpReport {
    /// Creates the summary.
    pub fn new(
        source: &Source,
        subject: &Subject,
        output: &DumpOutput,
        options: &DumpOptions,
        summary: &Summary,
    ) -> Self {
        let (format, targets) = (output.format(), output.targets());
        let name = |target: &OutputTarget| match target.path() {
            Some(path) => path.display().to_string(),
            None => "-".to_owned(),
        };
        let mut outputs: Vec<_> = targets.iter().map(name).collect();
        let output = outputs.first().cloned().unwrap_or_default();
        if outputs.len() == 1 {
            outputs.clear();
        }
        let excluded = &summary.excluded;
        let phase = |p: &bigiron_dump::PhaseTime| PhaseReport {
            name: p.name,
            seconds: p.time.as_secs_f64(),
        };
        Self {
            source: source.path().display().to_string(),
            source_kind: source.kind(),
            kernel: subject.utsname().release().to_owned(),
            system: subject.system(),
            output,
            outputs,
            format: format.name(),
            compression: format.compression(),
            dump_level: options.level.number(),
            page_size: summary.page_size,
            pages: Pages {
                ram: summary.ram,
                dumped: summary.dumped,
                zero: summary.zero,
                zero_left_out: summary.zero_excluded,
                stored_once_for_several: summary.shared,
                kept_against_class: summary.guarded,
                kept_by_rules: summary.kept_by_rules,
                blanked_by_rules: summary.blanked_by_rules,
                excluded: Excluded {
                    cache: excluded.cache,
                    cache_private: excluded.cache_private,
                    user: excluded.user,
                    free: excluded.free,
                    unaccepted: excluded.unaccepted,
                    hwpoison: excluded.hw_poison,
                    offline: excluded.offline,
                    not_in_source: excluded.absent,
                    device: excluded.device,
                    other_owner: excluded.owner,
                    dom0: excluded.dom0,
                    struct_pages: excluded.struct_pages,
                    rules: excluded.rules,
                },
                lost: summary.lost,
            },
            bytes_in: summary.bytes_in,
            bytes_out: summary.bytes_out,
            helpers: summary.helpers,
            helper_seconds: summary
                .helper_times
                .iter()
                .map(std::time::Duration::as_secs_f64)
                .collect(),
            struct_pages: summary.struct_pages,
            phases: summary.phases.iter().map(phase).collect(),
            seconds: summary
                .phases
                .iter()
                .map(|phase| phase.time.as_secs_f64())
                .sum(),
            peak_memory: summary.peak_memory,
            waits: summary.waits.map(|waits| WaitsReport {
                for_output: waits.for_output.as_secs_f64(),
                for_helpers: waits.for_helpers.as_secs_f64(),
            }),
            adaptive: summary
                .adaptive
                .iter()
                .map(|(compression, units)| StepReport {
                    compression: compression.to_string(),
                    units: *units,
                })
                .collect(),
            page_cache: CacheReport {
                hits: summary.cache.hits,
                misses: summary.cache.misses,
            },
            source_complete: source.damage().is_none(),
            lost_frames: summary.lost_frames.iter().map(|frame| frame.0).collect(),
            warnings: summary.warnings.clone(),
        }
    }

    /// Formats the summary as JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Formats the summary as text; `stats` adds details.
    pub fn text(&self, stats: bool) -> String {
        let mut out = String::new();
        self.write_text(&mut out, stats).unwrap_or_default();
        out
    }

    fn write_text(&self, out: &mut String, stats: bool) -> std::fmt::Result {
        let pages = &self.pages;
        let excluded = &pages.excluded;
        writeln!(
            out,
            "{} ({}, {})",
            self.source, self.source_kind, self.system
        )?;
        let zero_kept = if pages.zero_left_out { 0 } else { pages.zero };
        let rows = [
            ("page cache", excluded.cache),
            ("page cache with private data", excluded.cache_private),
            ("user memory", excluded.user),
            ("free", excluded.free),
            ("unaccepted by the guest", excluded.unaccepted),
            ("poisoned", excluded.hwpoison),
            ("offline", excluded.offline),
            ("not in the source", excluded.not_in_source),
            ("device memory (no struct pages)", excluded.device),
            ("of owners left out", excluded.other_owner),
            ("of dom0, by its kernel", excluded.dom0),
            ("struct pages of excluded pages", excluded.struct_pages),
            ("by rules", excluded.rules),
            ("zero", if pages.zero_left_out { pages.zero } else { 0 }),
        ];
        self.row(out, "RAM", pages.ram)?;
        for (name, count) in rows.into_iter().filter(|(_, count)| *count > 0) {
            self.row(out, &format!("  - {name}"), count)?;
        }
        let left_out = rows.iter().map(|(_, count)| count).sum::<u64>();
        self.row(out, "dumped", pages.ram.saturating_sub(left_out))?;
        if zero_kept > 0 {
            self.row(out, "  of which zero", zero_kept)?;
        }
        if pages.kept_against_class > 0 {
            let name = "  the kernel's own, whatever their class";
            self.row(out, name, pages.kept_against_class)?;
        }
        if pages.kept_by_rules > 0 {
            self.row(out, "  by rules", pages.kept_by_rules)?;
        }
        if pages.blanked_by_rules > 0 {
            let name = "  without contents, by rules";
            self.row(out, name, pages.blanked_by_rules)?;
        }
        if pages.stored_once_for_several > 0 {
            self.row(
                out,
                "  equal to another page",
                pages.stored_once_for_several,
            )?;
        }
        if pages.lost > 0 {
            self.row(out, "  LOST (cannot be read)", pages.lost)?;
        }
        let codec = self
            .compression
            .as_deref()
            .map_or(String::new(), |c| format!(", {c}"));
        writeln!(
            out,
            "{}: {} ({}{codec}, dump level {}): {:.1} times smaller than RAM",
            match self.outputs.is_empty() {
                true => self.output.clone(),
                false => self.outputs.join(", "),
            },
            size::format(self.bytes_out),
            self.format,
            self.dump_level,
            (pages.ram * self.page_size) as f64 / (self.bytes_out.max(1)) as f64,
        )?;
        write!(out, "{:.2} s", self.seconds)?;
        for (index, phase) in self.phases.iter().enumerate() {
            let separator = if index == 0 { ": " } else { ", " };
            write!(out, "{separator}{} {:.2}", phase.name, phase.seconds)?;
        }
        let copy = self.phases.iter().find(|phase| phase.name == "copy");
        let rate = copy.map_or(0.0, |copy| self.bytes_in as f64 / copy.seconds.max(1e-9));
        // Unknown without /proc.
        let peak_memory = match self.peak_memory {
            0 => "unknown".to_owned(),
            bytes => size::format(bytes),
        };
        let helpers = if self.helpers == 1 {
            "helper"
        } else {
            "helpers"
        };
        writeln!(
            out,
            "; {}/s copied by {} {helpers}; peak memory {}",
            size::format(rate as u64),
            self.helpers,
            peak_memory,
        )?;
        if stats {
            writeln!(
                out,
                "{} struct pages; page cache: {} hits, {} misses",
                size::group(self.struct_pages),
                size::group(self.page_cache.hits),
                size::group(self.page_cache.misses),
            )?;
            if let Some(waits) = &self.waits {
                writeln!(
                    out,
                    "waited: helpers {:.2} s for the output, the writer {:.2} s for helpers",
                    waits.for_output, waits.for_helpers
                )?;
            }
            let units: u64 = self.adaptive.iter().map(|step| step.units).sum();
            for step in &self.adaptive {
                let percent = step.units as f64 * 100.0 / units.max(1) as f64;
                writeln!(
                    out,
                    "{percent:3.0}% of the memory with {}",
                    step.compression
                )?;
            }
            for frame in &self.lost_frames {
                writeln!(out, "lost: page frame {frame:#x}")?;
            }
        }
        Ok(())
    }

    fn row(&self, out: &mut String, name: &str, count: u64) -> std::fmt::Result {
        let bytes = size::format(count * self.page_size);
        writeln!(
            out,
            "{name:32} {:>14} pages {bytes:>12}",
            size::group(count)
        )
    }
}

/// Prints to standard output, or to standard error if that is used for the dump.
pub fn print(text: &str, stdout_is_taken: bool) -> io::Result<()> {
    let text = format!("{}\n", text.trim_end());
    match stdout_is_taken {
        true => tell::write_error(&text),
        false => tell::write_output(&text),
    }
}

/// As [`print()`], for the report of a dump that is complete and on the disk: if it cannot be
/// printed, that is no failure.
pub fn print_report(text: &str, stdout_is_taken: bool) {
    if let Err(error) = print(text, stdout_is_taken) {
        tell!("bigiron: warning: the dump is made, but its report cannot be printed: {error}");
    }
}
