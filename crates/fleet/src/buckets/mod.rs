//! Buckets: the crashes of a table that are one bug, and the machines that have it.
//!
//! Two crashes are one if they share a fingerprint, or if the title or an alternative title of
//! one is among those of the other. Corrupted reports, whose titles may be wrong, are joined by
//! their title alone, and with no others.

mod bucket;
mod groups;
mod hosts;
mod seen;
mod similar;

use std::collections::HashMap;

use crate::row::Row;

pub use bucket::{Bucket, Buckets, Host, Similar};
use hosts::Hosts;
pub use seen::{Day, Kernel, Seen};

/// What makes crashes equal, as far as rows say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    title: String,
    alternative_titles: Vec<String>,
    fingerprint: Option<String>,
    corrupted: bool,
}

/// Counts rows. Memory grows with the kinds of crashes and with the hosts, not with the rows.
#[derive(Debug, Default)]
pub struct Counter {
    rows: u64,
    without_crash: u64,
    failed: u64,
    by_kind: HashMap<Kind, usize>,
    kinds: Vec<(Kind, Seen, Vec<String>)>,
    hosts: Hosts,
}

impl Counter {
    /// Counts a row.
    pub fn add(&mut self, row: Row) {
        self.rows += 1;
        let (has_failed, time) = (row.has_failed(), row.time());
        let Some(title) = row.title else {
            match has_failed {
                true => self.failed += 1,
                false => self.without_crash += 1,
            }
            return;
        };
        let kind = Kind {
            title,
            alternative_titles: row.alternative_titles,
            fingerprint: row.fingerprint,
            corrupted: row.corrupted.unwrap_or(false),
        };
        let index = *self.by_kind.entry(kind.clone()).or_insert_with(|| {
            self.kinds.push((kind, Seen::default(), row.frames));
            self.kinds.len() - 1
        });
        let host = row.host.map(|host| self.hosts.number_of(host));
        if let Some(host) = host {
            self.hosts.count(host, index);
        }
        self.kinds[index].1.add(time, host, row.kernel_release);
    }

    /// Joins the kinds that are one bug.
    pub fn finish(self) -> Buckets {
        let groups = groups::join(self.kinds.iter().map(|(kind, ..)| keys(kind)));
        let mut bucket_of = vec![0; self.kinds.len()];
        for (number, group) in groups.iter().enumerate() {
            for kind in group {
                bucket_of[*kind] = number;
            }
        }
        let buckets: Vec<Bucket> = groups
            .iter()
            .map(|group| bucket(group, &self.kinds))
            .collect();
        let hosts = self.hosts.of_many_titles(&bucket_of, &buckets);
        let mut found = Buckets {
            rows: self.rows,
            without_crash: self.without_crash,
            failed: self.failed,
            machines: self.hosts.len(),
            hosts,
            buckets,
        };
        similar::find(&mut found.buckets);
        found.buckets.sort_by(|a, b| {
            // Those of corrupted reports last: they may be several bugs.
            let order = |bucket: &Bucket| {
                let Seen { crashes, last, .. } = bucket.seen;
                (!bucket.corrupted, bucket.seen.machines(), crashes, last)
            };
            order(b).cmp(&order(a)).then_with(|| a.title.cmp(&b.title))
        });
        found
    }
}

/// The names of which two crashes that are one share at least one.
fn keys(kind: &Kind) -> Vec<String> {
    if kind.corrupted {
        return vec![format!("corrupted {}", kind.title)];
    }
    let titles = [&kind.title].into_iter().chain(&kind.alternative_titles);
    let titles = titles.map(|title| format!("title {title}"));
    let fingerprint = kind
        .fingerprint
        .iter()
        .map(|found| format!("fingerprint {found}"));
    titles.chain(fingerprint).collect()
}

fn bucket(group: &[usize], kinds: &[(Kind, Seen, Vec<String>)]) -> Bucket {
    let mut members: Vec<_> = group.iter().filter_map(|index| kinds.get(*index)).collect();
    members.sort_by(|a, b| {
        b.1.crashes
            .cmp(&a.1.crashes)
            .then_with(|| a.0.title.cmp(&b.0.title))
    });
    let mut seen = Seen::default();
    let mut titles: Vec<String> = Vec::new();
    for (kind, part, _) in &members {
        seen.merge(part);
        if !titles.contains(&kind.title) {
            titles.push(kind.title.clone());
        }
    }
    let title = titles.first().cloned().unwrap_or_default();
    let fingerprint = members
        .iter()
        .find_map(|(kind, ..)| kind.fingerprint.clone());
    let hash = || format!("{:032x}", xxhash_rust::xxh3::xxh3_128(title.as_bytes()));
    Bucket {
        id: fingerprint.unwrap_or_else(hash),
        corrupted: members.iter().any(|(kind, ..)| kind.corrupted),
        frames: members
            .first()
            .map(|(.., frames)| frames.clone())
            .unwrap_or_default(),
        similar: Vec::new(),
        titles,
        title,
        seen,
    }
}

#[cfg(test)]
mod tests;
