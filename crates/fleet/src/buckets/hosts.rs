//! Hosts that crash in many ways.

use std::collections::{BTreeMap, HashMap};

use super::bucket::{Bucket, Host};

/// Titles from which on a host is named: one bug has one, and what it damages perhaps a second.
const MANY: usize = 3;
/// Maximum number of hosts named.
const MAX_HOSTS: usize = 100;

/// All hosts by number, and how often each had which kind of crash.
#[derive(Debug, Default)]
pub struct Hosts {
    numbers: HashMap<String, u32>,
    crashes: HashMap<u32, BTreeMap<usize, u64>>,
}

impl Hosts {
    /// The number of a host.
    pub fn number_of(&mut self, host: String) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(host).or_insert(next)
    }

    /// Counts a crash.
    pub fn count(&mut self, host: u32, kind: usize) {
        *self
            .crashes
            .entry(host)
            .or_default()
            .entry(kind)
            .or_default() += 1;
    }

    /// The number of hosts.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The hosts with crashes in many buckets, those of most first; `bucket_of` has the bucket of
    /// each kind.
    pub fn of_many_titles(&self, bucket_of: &[usize], buckets: &[Bucket]) -> Vec<Host> {
        let host = |(name, number): (&String, &u32)| {
            let kinds = self.crashes.get(number)?;
            let mut numbers: Vec<_> = kinds
                .keys()
                .filter_map(|kind| bucket_of.get(*kind))
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            let titles = numbers.iter().filter_map(|number| buckets.get(**number));
            (numbers.len() >= MANY).then(|| Host {
                host: name.clone(),
                crashes: kinds.values().sum(),
                titles: titles.map(|bucket| bucket.title.clone()).collect(),
            })
        };
        let mut hosts: Vec<Host> = self.numbers.iter().filter_map(host).collect();
        hosts.sort_by(|a, b| {
            let order = |host: &Host| (host.titles.len(), host.crashes);
            order(b).cmp(&order(a)).then_with(|| a.host.cmp(&b.host))
        });
        hosts.truncate(MAX_HOSTS);
        hosts
    }
}
