//! Throughput of reading memory from a source: dumps without compression or output, by mmap()
//! and by read(), with increasing numbers of helpers.
//!
//! In a capture kernel, on /proc/vmcore, this repeats HATAYAMA Daisuke's measurement of the
//! kernel's mmap() support (kexec list, July 2013), and the tables have the same form: a
//! thread's time is from its first to its last page, and the throughput in megabytes per second
//! is that of all threads over their average time.

use std::fmt::Write as _;
use std::time::Duration;

use bigiron_dump::{
    DumpOptions, DumpOutput, Format, Optimizations, OutputTarget, Progress, Subject,
};
use bigiron_format::codec::{Codec, Compression};
use bigiron_helpers::{MemoryBudget, Stop};
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, PhysicalMemory, Source};
use serde::Serialize;

use crate::results::median;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct VmcoreOptions {
    /// Numbers of helpers to measure.
    pub threads: Vec<usize>,
    /// The dump level.
    pub level: DumpLevel,
    /// Number of runs of each case. The run with the median copy time counts.
    pub runs: usize,
}

/// Result for one access method and number of helpers.
#[derive(Clone, Debug, Serialize)]
pub struct VmcoreRow {
    /// `mmap` or `read`.
    pub io: &'static str,
    /// Number of helpers.
    pub threads: usize,
    /// Duration of the filter in seconds.
    pub filter: f64,
    /// Copy time of each helper in seconds, in ascending order.
    pub copy: Vec<f64>,
    /// Size of the copied pages in bytes.
    pub bytes: u64,
}

impl VmcoreRow {
    /// Returns the average of the helpers' times, in seconds.
    pub fn average(&self) -> f64 {
        self.copy.iter().sum::<f64>() / self.copy.len().max(1) as f64
    }

    /// Returns the throughput in megabytes per second.
    pub fn speed(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.average().max(1e-9)
    }
}

/// Dumps `source` with each access method and number of helpers.
pub fn measure(source: &Source, options: &VmcoreOptions) -> anyhow::Result<Vec<VmcoreRow>> {
    let mut rows = Vec::new();
    for (name, io) in [("mmap", IoMethod::Mmap), ("read", IoMethod::Read)] {
        let kernel = Kernel::find(source, None, io, PhysicalMemory::DEFAULT_CACHE_PAGES)?;
        let subject = Subject::from(kernel);
        for &threads in &options.threads {
            let runs = (0..options.runs.max(1)).map(|_| once(&subject, name, io, threads, options));
            let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
            let averages: Vec<f64> = runs.iter().map(VmcoreRow::average).collect();
            let middle = median(&averages);
            let distance = |row: &VmcoreRow| (row.average() - middle).abs();
            let nearest = runs
                .into_iter()
                .min_by(|one, other| distance(one).total_cmp(&distance(other)));
            rows.extend(nearest);
        }
    }
    Ok(rows)
}

fn once(
    subject: &Subject,
    name: &'static str,
    io: IoMethod,
    threads: usize,
    options: &VmcoreOptions,
) -> anyhow::Result<VmcoreRow> {
    let dump = DumpOptions {
        level: options.level,
        threads,
        // The requested number of helpers, whatever memory is free.
        memory: MemoryBudget::of(u64::MAX),
        optimizations: Optimizations {
            equal_pages: false,
            ..Optimizations::default()
        },
        io,
        ..DumpOptions::default()
    };
    let (progress, stop) = (Progress::new(), Stop::new());
    let format = Format::kdump(Compression::new(Codec::None));
    let output = DumpOutput::whole(format, OutputTarget::Nowhere);
    let summary = bigiron_dump::dump(subject, &output, &dump, &progress, &stop)?;
    let filter = summary.phases.iter().find(|phase| phase.name == "filter");
    let mut copy: Vec<f64> = summary
        .helper_times
        .iter()
        .map(Duration::as_secs_f64)
        .collect();
    copy.sort_by(f64::total_cmp);
    Ok(VmcoreRow {
        io: name,
        threads: summary.helpers,
        filter: filter.map_or(0.0, |phase| phase.time.as_secs_f64()),
        copy,
        bytes: summary.bytes_in,
    })
}

/// Formats the results: one table for each access method.
pub fn table(rows: &[VmcoreRow]) -> String {
    let mut out = String::new();
    write_tables(&mut out, rows).unwrap_or_default();
    out
}

fn write_tables(out: &mut String, rows: &[VmcoreRow]) -> std::fmt::Result {
    let most = rows.iter().map(|row| row.copy.len()).max().unwrap_or(0);
    for of_one in rows.chunk_by(|one, other| one.io == other.io) {
        writeln!(out, "{}", of_one[0].io)?;
        write!(out, "| #threads | filter [s] |")?;
        for thread in 1..=most {
            write!(out, " {:>9} |", format!("thr {thread} [s]"))?;
        }
        writeln!(out, " avg [s] | per [MB/s] | ratio |")?;
        write!(out, "|----------+------------+")?;
        write!(out, "{}", "-----------+".repeat(most))?;
        writeln!(out, "---------+------------+-------|")?;
        let first = of_one[0].speed();
        for row in of_one {
            write!(out, "| {:>8} | {:>10.2} |", row.threads, row.filter)?;
            for thread in 0..most {
                match row.copy.get(thread) {
                    Some(seconds) => write!(out, " {seconds:>9.2} |")?,
                    None => write!(out, " {:>9} |", "-")?,
                }
            }
            writeln!(
                out,
                " {:>7.2} | {:>10.2} | {:>5.2} |",
                row.average(),
                row.speed(),
                row.speed() / first
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_the_form_of_the_historical_one() {
        let row = |threads, copy: &[f64]| VmcoreRow {
            io: "mmap",
            threads,
            filter: 1.5,
            copy: copy.to_vec(),
            bytes: 32_768_000_000,
        };
        let text = table(&[row(1, &[25.10]), row(2, &[11.88, 14.25])]);
        let expected = "\
mmap
| #threads | filter [s] | thr 1 [s] | thr 2 [s] | avg [s] | per [MB/s] | ratio |
|----------+------------+-----------+-----------+---------+------------+-------|
|        1 |       1.50 |     25.10 |         - |   25.10 |    1305.50 |  1.00 |
|        2 |       1.50 |     11.88 |     14.25 |   13.07 |    2508.08 |  1.92 |

";
        assert_eq!(text, expected);
    }
}
