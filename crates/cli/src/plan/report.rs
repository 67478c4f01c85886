//! The plan as text and JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::estimate::{Estimate, Estimates};
use super::line::{Line, Verdict};
use crate::size;

/// Everything that was found.
#[derive(Serialize)]
pub struct Report {
    /// The worst verdict of all lines.
    pub verdict: Verdict,
    /// The lines.
    pub checks: Vec<Line>,
    /// The estimates, if they were made.
    pub estimates: Option<Estimates>,
    /// Why they were not.
    pub not_estimated: Option<String>,
}

impl Report {
    /// Combines lines and estimates.
    pub fn new(checks: Vec<Line>, estimates: Result<Estimates, String>) -> Self {
        let worst = checks.iter().map(|line| line.verdict).max();
        let (estimates, not_estimated) = match estimates {
            Ok(estimates) => (Some(estimates), None),
            Err(reason) => (None, Some(reason)),
        };
        Self {
            verdict: worst.unwrap_or(Verdict::Ok),
            checks,
            estimates,
            not_estimated,
        }
    }

    /// Formats it as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write_text(&mut out).unwrap_or_default();
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        if let Some(estimates) = &self.estimates {
            write_estimates(out, estimates)?;
        }
        if let Some(reason) = &self.not_estimated {
            writeln!(out, "size and time of the dump: not estimated: {reason}")?;
        }
        let mut section = None;
        for line in &self.checks {
            if section.replace(line.section) != Some(line.section) {
                writeln!(out, "\n{}", line.section.heading())?;
            }
            writeln!(
                out,
                "  {:8} {:26} {}",
                line.verdict.word(),
                line.name,
                line.text
            )?;
        }
        let count = |verdict| {
            self.checks
                .iter()
                .filter(|line| line.verdict == verdict)
                .count()
        };
        writeln!(
            out,
            "\nfailures: {}, warnings: {}",
            count(Verdict::Failure),
            count(Verdict::Warning)
        )
    }
}

fn write_estimates(out: &mut String, estimates: &Estimates) -> std::fmt::Result {
    let bytes = |pages: u64| size::format(pages.saturating_mul(estimates.page_size));
    let classes = &estimates.classes;
    writeln!(
        out,
        "memory {}: page cache {}, with private data {}, user {}, free {}, others {}",
        bytes(estimates.ram_pages),
        bytes(classes.cache),
        bytes(classes.cache_private),
        bytes(classes.user),
        bytes(classes.free),
        bytes(classes.others)
    )?;
    let measured = match estimates.write_speed_measured {
        true => "measured",
        false => "assumed; --try-disk measures it",
    };
    writeln!(
        out,
        "the dump with {} CPUs, to a disk of {}/s ({measured})",
        estimates.capture_cpus,
        size::format(estimates.write_speed as u64)
    )?;
    writeln!(
        out,
        "  level  format            kept         size         time"
    )?;
    for dump in &estimates.dumps {
        let format = match &dump.compression {
            Some(compression) => format!("{} {compression}", dump.format),
            None => dump.format.to_owned(),
        };
        let size = size::format(dump.bytes);
        writeln!(
            out,
            "  {:>5}  {format:14} {:>12} {size:>12} {:>12}",
            dump.dump_level,
            bytes(dump.pages),
            time(dump)
        )?;
    }
    Ok(())
}

/// Seconds, or minutes where there are some.
fn time(dump: &Estimate) -> String {
    match dump.seconds {
        seconds if seconds < 120.0 => format!("{seconds:.1} s"),
        seconds => format!("{:.0} min", (seconds / 60.0).ceil()),
    }
}
