//! When, where and with which kernels crashes were seen.

use std::collections::{BTreeMap, BTreeSet};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// What is known of crashes of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Number of crashes.
    pub crashes: u64,
    /// Crashes whose rows name no host.
    pub without_host: u64,
    /// The first crash: milliseconds since 1970.
    pub first: Option<i64>,
    /// The last crash.
    pub last: Option<i64>,
    hosts: BTreeSet<u32>,
    kernels: BTreeMap<String, u64>,
    days: BTreeMap<i64, u64>,
}

/// A kernel, and the crashes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// As `uname -r`.
    pub release: String,
    /// Number of crashes.
    pub crashes: u64,
}

/// A day, and its crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Day {
    /// Days since 1970.
    pub day: i64,
    /// Number of crashes.
    pub crashes: u64,
}

impl Seen {
    /// Counts a crash.
    pub(super) fn add(&mut self, time: i64, host: Option<u32>, kernel: Option<String>) {
        self.crashes += 1;
        match host {
            Some(host) => _ = self.hosts.insert(host),
            None => self.without_host += 1,
        }
        if let Some(kernel) = kernel {
            *self.kernels.entry(kernel).or_default() += 1;
        }
        *self.days.entry(time.div_euclid(DAY)).or_default() += 1;
        self.widen(Some(time), Some(time));
    }

    /// Adds the crashes of another kind.
    pub(super) fn merge(&mut self, other: &Self) {
        self.crashes += other.crashes;
        self.without_host += other.without_host;
        self.hosts.extend(&other.hosts);
        for (kernel, crashes) in &other.kernels {
            *self.kernels.entry(kernel.clone()).or_default() += crashes;
        }
        for (day, crashes) in &other.days {
            *self.days.entry(*day).or_default() += crashes;
        }
        self.widen(other.first, other.last);
    }

    fn widen(&mut self, first: Option<i64>, last: Option<i64>) {
        self.first = [self.first, first].into_iter().flatten().min();
        self.last = self.last.max(last);
    }

    /// The number of hosts that are named.
    pub fn machines(&self) -> usize {
        self.hosts.len()
    }

    /// The kernels, those of most crashes first.
    pub fn kernels(&self) -> Vec<Kernel> {
        let kernels = self.kernels.iter().map(|(release, crashes)| Kernel {
            release: release.clone(),
            crashes: *crashes,
        });
        let mut kernels: Vec<_> = kernels.collect();
        kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.crashes));
        kernels
    }

    /// The days with crashes, in order.
    pub fn days(&self) -> Vec<Day> {
        let days = self.days.iter();
        days.map(|(day, crashes)| Day {
            day: *day,
            crashes: *crashes,
        })
        .collect()
    }
}

impl Serialize for Seen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Seen", 7)?;
        object.serialize_field("machines", &self.machines())?;
        object.serialize_field("crashes", &self.crashes)?;
        object.serialize_field("without_host", &self.without_host)?;
        object.serialize_field("first", &self.first)?;
        object.serialize_field("last", &self.last)?;
        object.serialize_field("kernels", &self.kernels())?;
        object.serialize_field("days", &self.days())?;
        object.end()
    }
}
