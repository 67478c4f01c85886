//! The effect of each optimisation: the same dump with all of them, and without each, in turns.

use std::fmt::Write as _;
use std::path::Path;

use bigiron_dump::{DumpOptions, Format, Optimizations};
use bigiron_format::codec::Compression;
use bigiron_kernel::{DumpLevel, IoMethod, Source};
use serde::Serialize;

use super::trial;
use bigiron_bench::results::median;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct OptimizationsOptions {
    /// The codecs.
    pub compressions: Vec<Compression>,
    /// The dump level.
    pub level: DumpLevel,
    /// Number of helper threads.
    pub threads: usize,
    /// Number of runs of each.
    pub runs: usize,
}

/// Result of one variant.
#[derive(Clone, Debug, Serialize)]
pub struct Variant {
    /// The difference from the default.
    pub name: &'static str,
    /// Median wall time in seconds.
    pub seconds: f64,
    /// Median CPU time in seconds, which other load affects less.
    pub cpu_seconds: f64,
    /// Number of bytes written.
    pub bytes: u64,
}

/// Results of all variants with one codec.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The codec.
    pub compression: String,
    /// The variants; the first has all optimisations.
    pub variants: Vec<Variant>,
}

/// A change of the default options.
type Change = fn(&mut DumpOptions);

/// The variants: name and change.
const VARIANTS: [(&str, Change); 6] = [
    ("all", |_| ()),
    ("without equal pages", |options| {
        options.optimizations.equal_pages = false;
    }),
    ("without incompressible", |options| {
        options.optimizations.incompressible = false;
    }),
    ("without scan blocks", |options| {
        options.optimizations.scan_blocks = false;
    }),
    ("without any", |options| {
        options.optimizations = Optimizations::NONE
    }),
    ("all, mapped source", |options| options.io = IoMethod::Mmap),
];

/// Dumps `source` with every variant.
pub fn measure(
    source: &Source,
    directory: &Path,
    options: &OptimizationsOptions,
) -> anyhow::Result<Vec<Row>> {
    let rows = options.compressions.iter();
    rows.map(|compression| row(source, directory, options, *compression))
        .collect()
}

fn row(
    source: &Source,
    directory: &Path,
    options: &OptimizationsOptions,
    compression: Compression,
) -> anyhow::Result<Row> {
    let mut walls = vec![Vec::new(); VARIANTS.len()];
    let mut cpus = vec![Vec::new(); VARIANTS.len()];
    let mut bytes = vec![0; VARIANTS.len()];
    for _ in 0..options.runs.max(1) {
        for (index, (_, change)) in VARIANTS.iter().enumerate() {
            let mut dump = DumpOptions {
                level: options.level,
                threads: options.threads,
                ..DumpOptions::default()
            };
            change(&mut dump);
            let trial = trial::run(source, directory, Format::kdump(compression), &dump)?;
            walls[index].push(trial.seconds);
            cpus[index].push(trial.cpu_seconds);
            bytes[index] = trial.bytes;
        }
    }
    let variants = VARIANTS.iter().enumerate();
    Ok(Row {
        compression: compression.to_string(),
        variants: variants
            .map(|(index, (name, _))| Variant {
                name,
                seconds: median(&walls[index]),
                cpu_seconds: median(&cpus[index]),
                bytes: bytes[index],
            })
            .collect(),
    })
}

/// Formats the results as a table.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    write_table(&mut out, rows).unwrap_or_default();
    out
}

fn write_table(out: &mut String, rows: &[Row]) -> std::fmt::Result {
    writeln!(
        out,
        "{:8} {:24} {:>8} {:>8} {:>8} {:>10}",
        "codec", "", "time", "CPU", "size", "CPU to all"
    )?;
    for row in rows {
        let all = row.variants.first().map_or(0.0, |all| all.cpu_seconds);
        for variant in &row.variants {
            writeln!(
                out,
                "{:8} {:24} {:>6.2} s {:>6.2} s {:>5} MB {:>+9.1}%",
                row.compression,
                variant.name,
                variant.seconds,
                variant.cpu_seconds,
                variant.bytes / 1_000_000,
                (variant.cpu_seconds / all - 1.0) * 100.0,
            )?;
        }
    }
    Ok(())
}
