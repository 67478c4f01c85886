//! Striped dumps: the same dump on one slow disk and on several disks of the same speed.

use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::path::Path;

use bigiron_dump::{ChunkCompression, DumpOptions, DumpOutput, Format, OutputTarget, ZstdChunks};
use bigiron_kernel::Source;
use serde::Serialize;

use super::trial::run_output;
use bigiron_bench::results::median;

/// Result of a dump with a number of parts.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Number of files.
    pub parts: usize,
    /// Median wall time in seconds.
    pub seconds: f64,
    /// Number of bytes written.
    pub bytes: u64,
    /// Speedup over the first row, by bytes per second.
    pub speedup: f64,
}

/// Dumps `source` striped over each of `counts` files, `runs` times in turns, with each file
/// limited to `limit` bytes per second.
pub fn measure(
    source: &Source,
    directory: &Path,
    usual: &DumpOptions,
    limit: NonZeroU64,
    counts: &[usize],
    runs: usize,
) -> anyhow::Result<Vec<Row>> {
    let options = DumpOptions {
        write_limit: Some(limit),
        ..usual.clone()
    };
    let mut rows: Vec<(Row, Vec<f64>)> = counts
        .iter()
        .map(|parts| (row(*parts), Vec::new()))
        .collect();
    for _ in 0..runs.max(1) {
        for (row, times) in &mut rows {
            let trial = run_output(source, &output(directory, row.parts), &options)?;
            row.bytes = trial.bytes;
            times.push(trial.seconds);
        }
    }
    let mut first = None;
    let finish = |(mut row, times): (Row, Vec<f64>)| {
        row.seconds = median(&times);
        let rate = row.bytes as f64 / row.seconds;
        row.speedup = rate / *first.get_or_insert(rate);
        row
    };
    Ok(rows.into_iter().map(finish).collect())
}

/// Returns an output of a vmdump striped over `parts` files in `directory`, or in one file.
fn output(directory: &Path, parts: usize) -> DumpOutput {
    let chunks = ZstdChunks::default();
    let name = |part| OutputTarget::File(directory.join(format!("dump{part}")));
    if parts == 1 {
        return DumpOutput::whole(Format::Vmdump(ChunkCompression::Zstd(chunks)), name(0));
    }
    DumpOutput::Striped {
        chunks,
        targets: (0..parts).map(name).collect(),
        recipients: None,
    }
}

fn row(parts: usize) -> Row {
    Row {
        parts,
        seconds: 0.0,
        bytes: 0,
        speedup: 1.0,
    }
}

/// Formats the results as a table.
pub fn table(rows: &[Row]) -> String {
    let mut out = format!("{:>5} {:>10} {:>9} {:>8}", "files", "time", "size", "speed");
    for row in rows {
        let (parts, seconds, megabytes) = (row.parts, row.seconds, row.bytes / 1_000_000);
        let _ = write!(
            out,
            "\n{parts:>5} {seconds:>8.2} s {megabytes:>6} MB {:>7.2}x",
            row.speedup
        );
    }
    out
}
