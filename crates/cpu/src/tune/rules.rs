//! Tunings as written by an administrator.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Tunable;
use crate::domains::SchedDomain;
use crate::list::CpuList;

/// Contents of a file of tunings. Later rules override earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Purpose of the rules, for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// Values for domains of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the level, such as `MC`; all levels if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The kernel's number of the level, where several levels share a name, as `NUMA` may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// CPUs whose domains are set; all CPUs if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// Minimum interval between balancing, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_interval: Option<u64>,
    /// Maximum interval between balancing, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_interval: Option<u64>,
    /// Factor by which the interval grows while the CPU is busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_factor: Option<u32>,
    /// Load that another group must have, in per cent of this group's load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imbalance_pct: Option<u32>,
    /// Number of attempts that skip cache-hot tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_nice_tries: Option<u32>,
}

impl Rules {
    /// Describes the first invalid rule; `None` if all rules are valid.
    pub fn fault(&self) -> Option<String> {
        let without = self
            .rules
            .iter()
            .position(|rule| rule.values().is_empty())?;
        let known = Tunable::ALL.map(Tunable::name).join(", ");
        Some(format!(
            "rule {} sets nothing; expected at least one of {known}",
            without + 1
        ))
    }
}

impl Rule {
    /// Returns the tunables that the rule sets, with their values.
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

    /// Sets a value; a value too large for the tunable becomes the largest one.
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

    /// Returns true if the rule applies to `domain`.
    pub fn is_for(&self, domain: &SchedDomain) -> bool {
        let cpus = self.cpus.as_ref();
        (self.domain.is_none() || self.domain == domain.name)
            && (self.level.is_none() || self.level == domain.level)
            && cpus.is_none_or(|cpus| cpus.contains(domain.cpu))
    }
}

/// Describes the domains to which the rule applies.
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
