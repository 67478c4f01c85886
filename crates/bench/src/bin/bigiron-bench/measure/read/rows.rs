//! The rows of the results, with medians and ratios.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use bigiron_bench::results::median;

/// Result of one kind of read.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Description of the read.
    pub what: String,
    /// Number of threads.
    pub threads: usize,
    /// Number of reads.
    pub reads: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Median time in seconds.
    pub seconds: f64,
    /// Ratio to the time of the row with which it is compared.
    pub ratio: Option<f64>,
    /// Fraction of the reads that decompressed nothing.
    pub hits: Option<f64>,
    /// All measured times in seconds.
    pub all_seconds: Vec<f64>,
}

/// The complete results.
#[derive(Clone, Debug, Serialize)]
pub struct ReadResults {
    /// Kind of the dump.
    pub kind: String,
    /// Number of pages in the dump.
    pub pages: u64,
    /// Maximum size of the cache in bytes.
    pub cache_bytes: u64,
    /// Peak size of the cache in bytes.
    pub peak_bytes: u64,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Returns the row of one run.
pub(super) fn row(what: &str, threads: usize, reads: u64, bytes: u64, time: Duration) -> Row {
    Row {
        what: what.to_owned(),
        threads,
        reads,
        bytes,
        seconds: time.as_secs_f64(),
        ..Row::default()
    }
}

/// Returns the medians of the same row in several runs.
pub(super) fn middle(rows: &[&Row]) -> Option<Row> {
    let seconds: Vec<f64> = rows.iter().map(|row| row.seconds).collect();
    let hits: Vec<f64> = rows.iter().filter_map(|row| row.hits).collect();
    let first = *rows.first()?;
    Some(Row {
        seconds: median(&seconds),
        hits: first.hits.map(|_| median(&hits)),
        all_seconds: seconds,
        ..first.clone()
    })
}

/// Compares sequential reads with the codec, or else with a reader that has its own cache; cold
/// pages with such a reader; and copies with plain copies.
pub(super) fn compare(rows: &mut [Row]) {
    let of = |name: &str| {
        rows.iter()
            .find(|row| row.what.starts_with(name))
            .map(|row| row.seconds)
    };
    let (codec, own) = (of("bare codec"), of("front to back, own"));
    let (cold, sequential) = (of("cold pages, own"), codec.or(own));
    let bare = |threads| {
        let is_bare = |row: &&Row| row.what.starts_with("bare copies") && row.threads == threads;
        rows.iter().find(is_bare).map(|row| row.seconds)
    };
    let copies = [bare(1), bare(2)];
    for row in rows {
        let against = match row.what.split(',').next() {
            Some("front to back" | "chunks read and checked") => sequential,
            Some("cold pages") => cold,
            Some("warm pages") => copies.get(row.threads - 1).copied().flatten(),
            _ => None,
        };
        row.ratio = against.map(|against| row.seconds / against.max(1e-9));
    }
}

/// Formats the results as text.
pub fn table(results: &ReadResults) -> String {
    let mut out = format!(
        "{}, {} pages, a cache of {} MiB that took {:.1} MiB at most\n{:46} {:>7} {:>10} {:>10} {:>11} {:>7} {:>8}",
        results.kind,
        results.pages,
        results.cache_bytes >> 20,
        results.peak_bytes as f64 / f64::from(1 << 20),
        "what",
        "threads",
        "seconds",
        "MB/s",
        "reads/s",
        "ratio",
        "hits"
    );
    for row in &results.rows {
        let seconds = row.seconds.max(1e-9);
        let ratio = row
            .ratio
            .map_or(String::new(), |ratio| format!("{ratio:.3}"));
        let hits = row
            .hits
            .map_or(String::new(), |hits| format!("{:.3}%", hits * 100.0));
        let line = format!(
            "{:46} {:>7} {:>10.4} {:>10.0} {:>11.0} {ratio:>7} {hits:>8}",
            row.what,
            row.threads,
            row.seconds,
            row.bytes as f64 / 1e6 / seconds,
            row.reads as f64 / seconds,
        );
        let _ = write!(out, "\n{}", line.trim_end());
    }
    out
}
