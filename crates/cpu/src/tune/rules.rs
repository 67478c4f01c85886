//! Tunings as an administrator writes them down.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Tunable;
use crate::domains::SchedDomain;
use crate::list::CpuList;

/// Tunings, as they stand in a file. Where two rules set the same, the later counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// What they are for, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// What domains of a kind are to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The name of the level, such as `MC`; without it all levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The kernel's number of the level, where several have one name, as `NUMA` may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// Whose domains; without it all CPUs'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_interval: Option<u64>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_interval: Option<u64>,
    /// A factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_factor: Option<u32>,
    /// Per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imbalance_pct: Option<u32>,
    /// Attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_nice_tries: Option<u32>,
}

impl Rules {
    /// What is wrong with them; `None` if nothing is.
    pub fn fault(&self) -> Option<String> {
        let without = self
            .rules
            .iter()
            .position(|rule| rule.values().is_empty())?;
        let known = Tunable::ALL.map(Tunable::name).join(", ");
        Some(format!(
            "rule {} sets nothing; expected some of {known}",
            without + 1
        ))
    }
}

impl Rule {
    /// What it sets.
    pub fn values(&self) -> Vec<(Tunable, u64)> {
        let values = Tunable::ALL.map(|tunable| (tunable, self.value(tunable)));
        let set = |(tunable, value): (Tunable, Option<u64>)| value.map(|value| (tunable, value));
        values.into_iter().filter_map(set).collect()
    }

    fn value(&self, tunable: Tunable) -> Option<u64> {
        match tunable {
            Tunable::MinInterval => self.min_interval,
            Tunable::MaxInterval => self.max_interval,
            Tunable::BusyFactor => self.busy_factor.map(u64::from),
            Tunable::ImbalancePct => self.imbalance_pct.map(u64::from),
            Tunable::CacheNiceTries => self.cache_nice_tries.map(u64::from),
        }
    }

    /// Sets a value. One that the tunable cannot have is the largest.
    pub(super) fn set(&mut self, tunable: Tunable, value: u64) {
        let short = Some(u32::try_from(value).unwrap_or(u32::MAX));
        match tunable {
            Tunable::MinInterval => self.min_interval = Some(value),
            Tunable::MaxInterval => self.max_interval = Some(value),
            Tunable::BusyFactor => self.busy_factor = short,
            Tunable::ImbalancePct => self.imbalance_pct = short,
            Tunable::CacheNiceTries => self.cache_nice_tries = short,
        }
    }

    /// Whether it is for this domain.
    pub fn is_for(&self, domain: &SchedDomain) -> bool {
        let cpus = self.cpus.as_ref();
        (self.domain.is_none() || self.domain == domain.name)
            && (self.level.is_none() || self.level == domain.level)
            && cpus.is_none_or(|cpus| cpus.contains(domain.cpu))
    }
}

/// Which domains it is for, for people.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.domain {
            Some(name) => write!(f, "domain {name}")?,
            None => write!(f, "all domains")?,
        }
        if let Some(level) = self.level {
            write!(f, " of level {level}")?;
        }
        match &self.cpus {
            Some(cpus) => write!(f, " of CPUs {cpus}"),
            None => Ok(()),
        }
    }
}
