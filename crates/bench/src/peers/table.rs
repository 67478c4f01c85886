//! The report as text that can be pasted into a mail.

use std::collections::BTreeMap;

use super::report::{Report, Row};
use super::series::{Series, TOO_SLOW};
use crate::machine::Machine;

/// Left-aligned text columns; all others are numbers.
const LEFT: [&str; 2] = ["row", "its mode"];
/// Placeholder for a missing figure.
const NOTHING: &str = "-";

impl Report {
    /// Returns the report as text.
    pub fn text(&self, machine: &Machine) -> String {
        let mut lines = vec![machine.line()];
        lines.extend(head(self));
        lines.push(String::new());
        lines.extend(align(&rows(self)));
        if !self.references.is_empty() {
            lines.push(String::new());
            lines.extend(align(&references(self)));
        }
        lines.push(String::new());
        lines.extend(notes(self));
        lines.join("\n")
    }
}

/// Describes programs, source and output directory.
fn head(report: &Report) -> Vec<String> {
    let source = &report.source;
    let mut programs = vec![format!("bigiron {}", report.version)];
    programs.extend(report.programs.iter().map(|program| program.line()));
    let disk = if report.in_memory {
        "in memory"
    } else {
        "so the disk is measured as well; bigiron waits until its file is durable, others do not"
    };
    vec![
        programs.join("; "),
        format!(
            "{} ({}, Linux {}, {} MiB{}), outputs in {}, {disk}",
            source.path.display(),
            source.kind,
            source.kernel,
            source.bytes >> 20,
            if source.in_memory { ", in memory" } else { "" },
            report.directory.display(),
        ),
        match report.runs {
            1 => "1 run each, in turns, in seconds".to_owned(),
            runs => format!("{runs} runs each, in turns; medians, in seconds"),
        },
    ]
}

fn rows(report: &Report) -> Vec<Vec<String>> {
    let all = format!("-j{}", report.helpers);
    let mut table = vec![
        [
            "row",
            "makedumpfile",
            "its mode",
            "-j1",
            &all,
            "thread/-j1",
            &format!("best/{all}"),
            "MB",
            "theirs",
            "CPU s",
            "theirs",
            "peak MiB",
            "theirs",
            "bare 1",
            &format!("bare {}", report.helpers),
            &format!("{all}/bare"),
            "pages",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    table.extend(report.rows.iter().map(row));
    table
}

fn row(row: &Row) -> Vec<String> {
    let best = row.makedumpfile_best();
    let theirs = best.and_then(|series| series.median);
    let ours = row.all_helpers.median;
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let pages = if row.agreements.iter().any(|it| it.is_wrong()) {
        "WRONG"
    } else if row.agreements.iter().any(|it| !it.is_equal()) {
        "other *"
    } else {
        "equal"
    };
    vec![
        row.name(),
        some(theirs, |run| seconds(run.seconds)),
        some(best, |series| series.mode.clone()),
        some(row.one_helper.seconds(), seconds),
        some(row.all_helpers.seconds(), seconds),
        some(row.ratios.one_thread_to_one_helper, ratio),
        some(row.ratios.best_to_all_helpers, ratio),
        some(ours, |run| megabytes(run.output_bytes)),
        some(theirs, |run| megabytes(run.output_bytes)),
        some(ours, |run| seconds(run.cpu_seconds)),
        some(theirs, |run| seconds(run.cpu_seconds)),
        some(ours, |run| mebibytes(run.peak_bytes)),
        some(theirs, |run| mebibytes(run.peak_bytes)),
        seconds(row.bare.one),
        seconds(row.bare.all),
        some(row.ratios.all_helpers_to_bare, ratio),
        pages.to_owned(),
    ]
}

fn references(report: &Report) -> Vec<Vec<String>> {
    let head = [
        "row", "seconds", "CPU s", "peak MiB", "MB", "core s", "core MB",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for reference in &report.references {
        let run = reference.series.median;
        table.push(vec![
            match reference.core_seconds {
                0.0 => format!("{} -d {}", reference.series.mode, reference.level),
                _ => format!(
                    "{} on the ELF core of -d {}",
                    reference.series.mode, reference.level
                ),
            },
            some(run, |run| seconds(run.seconds)),
            some(run, |run| seconds(run.cpu_seconds)),
            some(run, |run| {
                format!("{:.1}", run.peak_bytes as f64 / f64::from(1 << 20))
            }),
            some(run, |run| format!("{:.1}", run.output_bytes as f64 / 1e6)),
            seconds(reference.core_seconds),
            format!("{:.1}", reference.core_bytes as f64 / 1e6),
        ]);
    }
    table
}

/// Explains the figures, and lists their restrictions.
fn notes(report: &Report) -> Vec<String> {
    let mut lines = vec![
        "thread/-j1: makedumpfile without threads against one helper; best: its fastest mode; \
         theirs: of that mode"
            .to_owned(),
        "bare: the codec alone on 1 and on all processors, in memory: the limit; pages: compared \
         with makedumpfile's, and -j1's with all helpers'"
            .to_owned(),
    ];
    if !report.references.is_empty() {
        lines.push(
            "compressors get an ELF core, made by bigiron in `core s` with all helpers; bare: \
             the codec alone on a vmdump's chunks, in memory"
                .into(),
        );
    }
    for level in &report.levels {
        lines.push(format!(
            "-d {}: {} pages kept, {} of them nonzero, {} in the sample of the bare codec; memcpy of all \
             nonzero pages {} s on 1 processor, {} s on all",
            level.level,
            level.kept_pages,
            level.nonzero_pages,
            level.sampled_pages,
            seconds(level.memcpy.one),
            seconds(level.memcpy.all),
        ));
    }
    for (reason, rows) in absences(&report.rows) {
        lines.push(format!("{}: {reason}", rows.join(", ")));
    }
    lines.extend(aborts(&report.rows));
    for row in &report.rows {
        for agreement in row.agreements.iter().filter(|it| !it.is_equal()) {
            lines.push(format!("* {}: {}", row.name(), agreement.sentence()));
        }
    }
    lines
}

/// Returns the rows without makedumpfile, by reason.
fn absences(rows: &[Row]) -> BTreeMap<&str, Vec<String>> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in rows {
        if let Some(reason) = &row.makedumpfile_absent {
            reasons.entry(reason).or_default().push(row.name());
        }
    }
    reasons
}

/// Describes aborted and killed runs, and failed modes.
fn aborts(rows: &[Row]) -> Vec<String> {
    #[derive(Default)]
    struct Counts {
        aborted: u64,
        all: u64,
        too_slow: u64,
    }
    let mut modes: BTreeMap<&str, Counts> = BTreeMap::new();
    for series in rows.iter().flat_map(|row| &row.makedumpfile) {
        let counts = modes.entry(&series.mode).or_default();
        counts.aborted += series.aborted;
        counts.too_slow += u64::from(series.too_slow);
        counts.all += series.aborted + series.runs.len() as u64;
    }
    let mut lines = Vec::new();
    for (mode, counts) in modes {
        if counts.aborted > 0 {
            lines.push(format!(
                "makedumpfile {mode}: {} of {} runs were ended by a signal and are not counted",
                counts.aborted, counts.all
            ));
        }
        if counts.too_slow > 0 {
            lines.push(format!(
                "makedumpfile {mode}: abandoned in {} rows, where it took more than {TOO_SLOW} \
                 times as long as its best mode",
                counts.too_slow
            ));
        }
    }
    for row in rows {
        let failed = |series: &Series| {
            let failure = series.failure.as_ref()?;
            let (row, mode) = (row.name(), &series.mode);
            Some(format!("{row}: makedumpfile {mode}: {failure}"))
        };
        lines.extend(row.makedumpfile.iter().filter_map(failed));
    }
    lines
}

fn some<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), text)
}

fn seconds(seconds: f64) -> String {
    let digits = if seconds < 1.0 { 3 } else { 2 };
    format!("{seconds:.digits$}")
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// Aligns the columns, with two spaces between them.
fn align(table: &[Vec<String>]) -> Vec<String> {
    let Some(names) = table.first() else {
        return Vec::new();
    };
    let width = |column: usize| {
        let cells = table.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |line: &Vec<String>| {
        let cells = line.iter().zip(names).zip(&widths);
        let cells = cells.map(|((cell, name), width)| {
            if LEFT.contains(&name.as_str()) {
                format!("{cell:width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        let text = cells.collect::<Vec<_>>().join("  ");
        text.trim_end().to_owned()
    };
    table.iter().map(line).collect()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
