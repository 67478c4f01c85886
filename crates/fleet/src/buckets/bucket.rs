//! Buckets, as they are shown.

use serde::Serialize;

use super::seen::Seen;
use crate::row::Row;

/// The buckets of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Buckets {
    /// Rows of the table.
    pub rows: u64,
    /// Rows without a crash.
    pub without_crash: u64,
    /// Rows whose dump could not be described.
    pub failed: u64,
    /// Hosts that are named.
    pub machines: usize,
    /// The buckets, those of most machines first.
    pub buckets: Vec<Bucket>,
    /// Hosts that crashed in many ways, as with bad hardware: those of most titles first.
    pub hosts: Vec<Host>,
}

/// Crashes that are one bug.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// The fingerprint of most of its crashes; of those without one a hash of the title.
    pub id: String,
    /// The title of most of its crashes.
    pub title: String,
    /// All titles, most frequent first.
    pub titles: Vec<String>,
    /// True if the reports are cut or mixed, so that the title may be wrong.
    pub corrupted: bool,
    /// What is known of its crashes.
    #[serde(flatten)]
    pub seen: Seen,
    /// The blamed function and its callers, in one of the crashes.
    pub frames: Vec<String>,
    /// Buckets with a similar stack, the most similar first.
    pub similar: Vec<Similar>,
}

/// A bucket that is similar to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Similar {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// From 0 to 1.
    pub score: f64,
}

/// A host that crashed in many ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Its name.
    pub host: String,
    /// Number of crashes.
    pub crashes: u64,
    /// Titles of the buckets that it has crashes in.
    pub titles: Vec<String>,
}

impl Buckets {
    /// The bucket with this title, or whose id begins so.
    pub fn find(&self, name: &str) -> Option<&Bucket> {
        let mut buckets = self.buckets.iter();
        let by_id = buckets.find(|bucket| name.len() >= 4 && bucket.id.starts_with(name));
        by_id.or_else(|| {
            let has = |bucket: &&Bucket| bucket.titles.iter().any(|title| title == name);
            self.buckets.iter().find(has)
        })
    }
}

impl Bucket {
    /// Returns true if the crash of a row belongs to it.
    pub fn has(&self, row: &Row) -> bool {
        let title = row.title.as_ref();
        let is_same = self.corrupted == row.corrupted.unwrap_or(false);
        is_same && title.is_some_and(|title| self.titles.contains(title))
    }
}
