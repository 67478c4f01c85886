//! What reading a dump cost: rows, their medians and ratios.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use bigiron_bench::results::median;

/// One way to read.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// What was read, and how.
    pub what: String,
    /// Threads.
    pub threads: usize,
    /// Reads.
    pub reads: u64,
    /// Bytes.
    pub bytes: u64,
    /// The median of the seconds that they took.
    pub seconds: f64,
    /// How many times as long as the row that it is held against took.
    pub ratio: Option<f64>,
    /// Of all reads, those that had to decompress nothing.
    pub hits: Option<f64>,
    /// All seconds that were measured.
    pub all_seconds: Vec<f64>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct ReadResults {
    /// What kind of dump it is.
    pub kind: String,
    /// Pages in it.
    pub pages: u64,
    /// Bytes that the cache may take.
    pub cache_bytes: u64,
    /// The most that it took.
    pub peak_bytes: u64,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row of one run.
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

/// The medians of the same row in several runs.
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

/// Holds reading from front to back against the codec, or else against a reader with a
/// cache of its own, cold pages against such a reader, and copies against bare ones.
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

/// The results as text.
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
