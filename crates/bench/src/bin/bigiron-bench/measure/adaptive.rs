//! Adaptive compression compared with every fixed one, on disks of any speed.
//!
//! The disk is simulated by the engine's bandwidth limit. Everything else is the real pipeline,
//! writing to memory.

use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::path::Path;

use bigiron_dump::{DumpOptions, Format, PageCompression};
use bigiron_format::codec::Compression;
use bigiron_kernel::{DumpLevel, Source};
use serde::Serialize;

use super::trial;
use bigiron_bench::results::median;

/// In ascending order of strength. Above level 9 of zstd a page of 4 KiB shrinks only by one or
/// two per cent more.
const FIXED: [&str; 15] = [
    "none", "zstd:-50", "zstd:-20", "snappy", "lzo", "zstd:-7", "zstd:-5", "zstd:-3", "zstd:-1",
    "zstd:1", "zstd:2", "zstd:3", "zstd:5", "zstd:7", "zstd:9",
];
/// A level this many times slower than the best is not run again. If it is a strong level, no
/// stronger one is tried, because it would take even longer.
const HOPELESS: f64 = 1.6;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct AdaptiveOptions {
    /// Bandwidths of the disks in bytes per second.
    pub rates: Vec<NonZeroU64>,
    /// The dump level.
    pub level: DumpLevel,
    /// Number of helper threads.
    pub threads: usize,
    /// Number of runs of each.
    pub runs: usize,
}

/// Result of one compression on one disk.
#[derive(Clone, Debug, Serialize)]
pub struct Timed {
    /// Name as on the command line.
    pub compression: String,
    /// The median of `runs`.
    pub seconds: f64,
    /// Number of bytes written.
    pub bytes: u64,
    /// Duration of each run in seconds.
    pub runs: Vec<f64>,
}

/// Results of all compressions on one disk.
#[derive(Clone, Debug, Serialize)]
pub struct Disk {
    /// Bandwidth in bytes per second.
    pub rate: u64,
    /// Adaptive compression.
    pub adaptive: Timed,
    /// Fraction of the memory that the adaptive compression compressed with each method.
    pub shares: Vec<(String, f64)>,
    /// Fixed compressions.
    pub fixed: Vec<Timed>,
    /// Fixed compressions that were not run, because a weaker one was CPU-bound and already
    /// much slower than the best.
    pub left_out: Vec<String>,
    /// Ratio of adaptive to best fixed time; 1.1 is 10% slower.
    pub ratio: f64,
}

impl Disk {
    /// Returns the fastest fixed compression.
    pub fn best(&self) -> Option<&Timed> {
        self.fixed
            .iter()
            .min_by(|one, other| one.seconds.total_cmp(&other.seconds))
    }
}

/// Dumps `source` with every compression on every disk, in turns.
pub fn measure(
    source: &Source,
    directory: &Path,
    options: &AdaptiveOptions,
) -> anyhow::Result<Vec<Disk>> {
    let disks = options.rates.iter();
    disks
        .map(|rate| one_disk(source, directory, options, *rate))
        .collect()
}

fn one_disk(
    source: &Source,
    directory: &Path,
    options: &AdaptiveOptions,
    rate: NonZeroU64,
) -> anyhow::Result<Disk> {
    let dump_options = DumpOptions {
        level: options.level,
        threads: options.threads,
        write_limit: Some(rate),
        ..DumpOptions::default()
    };
    let run_trial = |compression: PageCompression| {
        trial::run(source, directory, Format::kdump(compression), &dump_options)
    };
    let mut fixed: Vec<Timed> = Vec::new();
    let mut adaptive = empty("adaptive");
    let (mut shares, mut left_out) = (Vec::new(), Vec::new());
    for run in 0..options.runs.max(1) {
        let trial = run_trial(PageCompression::Adaptive)?;
        adaptive.add(&trial);
        shares = shares_of(&trial.summary.adaptive);
        if run > 0 {
            let limit = HOPELESS * best_of(&fixed);
            for timed in fixed.iter_mut().filter(|timed| timed.seconds < limit) {
                let compression: Compression = timed.compression.parse()?;
                timed.add(&run_trial(compression.into())?);
            }
            continue;
        }
        for name in FIXED {
            let best = best_of(&fixed);
            if left_out.is_empty() && fixed.last().is_none_or(|t| t.seconds < HOPELESS * best)
                || is_fast(name)
            {
                let compression: Compression = name.parse()?;
                let mut timed = empty(name);
                timed.add(&run_trial(compression.into())?);
                fixed.push(timed);
            } else {
                left_out.push(name.to_owned());
            }
        }
    }
    let best = best_of(&fixed);
    Ok(Disk {
        rate: rate.get(),
        ratio: adaptive.seconds / best,
        adaptive,
        shares,
        fixed,
        left_out,
    })
}

/// Returns the shortest time of all.
fn best_of(fixed: &[Timed]) -> f64 {
    let seconds = fixed.iter().map(|timed| timed.seconds);
    seconds.fold(f64::INFINITY, f64::min)
}

/// True for weak compressions. If one of these is slow, the disk is the reason, which says
/// nothing about stronger ones.
fn is_fast(name: &str) -> bool {
    FIXED.iter().position(|other| *other == name) <= FIXED.iter().position(|n| *n == "zstd:1")
}

fn empty(compression: &str) -> Timed {
    Timed {
        compression: compression.to_owned(),
        seconds: 0.0,
        bytes: 0,
        runs: Vec::new(),
    }
}

impl Timed {
    fn add(&mut self, trial: &trial::Trial) {
        self.runs.push(trial.seconds);
        self.seconds = median(&self.runs);
        self.bytes = trial.bytes;
    }
}

fn shares_of(units: &[(Compression, u64)]) -> Vec<(String, f64)> {
    let all: u64 = units.iter().map(|(_, units)| units).sum();
    let share = |units: u64| units as f64 / all.max(1) as f64;
    units
        .iter()
        .map(|(compression, units)| (compression.to_string(), share(*units)))
        .collect()
}

/// Formats the results as a table.
pub fn table(disks: &[Disk]) -> String {
    let mut out = String::new();
    write_table(&mut out, disks).unwrap_or_default();
    out
}

fn write_table(out: &mut String, disks: &[Disk]) -> std::fmt::Result {
    for disk in disks {
        let best = disk.best().map_or("", |best| best.compression.as_str());
        writeln!(out, "{} MB/s", disk.rate / 1_000_000)?;
        for timed in disk.fixed.iter().chain([&disk.adaptive]) {
            let mark = if timed.compression == best {
                "  best"
            } else {
                ""
            };
            writeln!(
                out,
                "  {:10} {:>7.2} s {:>6} MB{mark}",
                timed.compression,
                timed.seconds,
                timed.bytes / 1_000_000
            )?;
        }
        let shares = disk.shares.iter().filter(|(_, share)| *share >= 0.005);
        let shares: Vec<_> = shares
            .map(|(name, share)| format!("{:.0}% {name}", share * 100.0))
            .collect();
        writeln!(
            out,
            "  adaptive took {:.2} times as long as the best; it chose {}",
            disk.ratio,
            shares.join(", ")
        )?;
        if !disk.left_out.is_empty() {
            writeln!(
                out,
                "  stronger ones, even slower: {}",
                disk.left_out.join(", ")
            )?;
        }
    }
    Ok(())
}
