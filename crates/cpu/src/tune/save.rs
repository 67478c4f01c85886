//! Saves the tunings of a kernel as a short list of rules.

use std::collections::{BTreeMap, BTreeSet};

use super::{Rule, Rules, Tunable};
use crate::domains::{SchedDomain, Tunables};
use crate::list::CpuList;
use crate::source::Chains;
use crate::source::SourceError;
use crate::tree::DomainTree;

/// Values to save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedValues {
    /// Values that differ from the kernel's own.
    Changed,
    /// All values.
    All,
}

/// Name of a level, and the kernel's number where several levels share the name.
type Level = (Option<String>, Option<u32>);
type Values = Vec<(Tunable, u64)>;

/// Returns rules that set the domains of `chains` to their current values. `built`, if known,
/// contains the domains that the kernel would build without isolated CPUs; they determine the
/// kernel's own intervals.
///
/// # Errors
/// The domains cannot be read.
pub fn save(
    chains: &dyn Chains,
    built: Option<&DomainTree>,
    which: SavedValues,
) -> Result<Rules, SourceError> {
    let mut domains = Vec::new();
    for cpu in chains.online()?.iter() {
        domains.extend(chains.chain(cpu)?);
    }
    let ambiguous = ambiguous(&domains);
    let level = |domain: &SchedDomain| -> Level {
        let level = domain.level.filter(|_| ambiguous.contains(&domain.name));
        (domain.name.clone(), level)
    };
    // CPUs of each level, and CPUs of each level with the same values.
    let mut all: BTreeMap<Level, Vec<u32>> = BTreeMap::new();
    let mut found: BTreeMap<(Level, Values), Vec<u32>> = BTreeMap::new();
    for domain in &domains {
        let Some(tunables) = &domain.tunables else {
            continue;
        };
        all.entry(level(domain)).or_default().push(domain.cpu);
        let usual = usual(domain, built);
        let values = Tunable::ALL.map(|tunable| (tunable, tunable.of(tunables)));
        let differs = |(tunable, value): &(Tunable, u64)| {
            which == SavedValues::All || !usual.is(*tunable, *value, tunables)
        };
        let values: Values = values.into_iter().filter(differs).collect();
        if !values.is_empty() {
            let cpus = found.entry((level(domain), values)).or_default();
            cpus.push(domain.cpu);
        }
    }
    let rule = |((level, values), cpus): ((Level, Values), Vec<u32>)| {
        let everyone = all.get(&level).is_some_and(|all| *all == cpus);
        let cpus: CpuList = cpus.into_iter().collect();
        let mut rule = Rule {
            domain: level.0,
            level: level.1,
            cpus: Some(cpus).filter(|_| !everyone),
            ..Rule::default()
        };
        for (tunable, value) in values {
            rule.set(tunable, value);
        }
        rule
    };
    Ok(Rules {
        comment: None,
        rules: found.into_iter().map(rule).collect(),
    })
}

/// Returns the names that several domains of one CPU share.
fn ambiguous(domains: &[SchedDomain]) -> BTreeSet<Option<String>> {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for domain in domains {
        if !seen.insert((domain.cpu, &domain.name)) {
            twice.insert(domain.name.clone());
        }
    }
    twice
}

/// The kernel's own values for a domain.
struct Usual {
    imbalance_pct: u64,
    cache_nice_tries: u64,
    /// Possible numbers of online CPUs of its level: `min_interval`, and half of
    /// `max_interval`.
    weights: Vec<u64>,
}

impl Usual {
    /// Returns true if the kernel itself would set this value.
    fn is(&self, tunable: Tunable, value: u64, all: &Tunables) -> bool {
        match tunable {
            Tunable::MinInterval | Tunable::MaxInterval if self.weighs(all) => true,
            Tunable::MinInterval => self.weights.contains(&value),
            Tunable::MaxInterval => value.is_multiple_of(2) && self.weights.contains(&(value / 2)),
            Tunable::BusyFactor => value == 16,
            Tunable::ImbalancePct => value == self.imbalance_pct,
            Tunable::CacheNiceTries => value == self.cache_nice_tries,
        }
    }

    /// Returns true if both intervals follow from one weight that the domain may have. If the
    /// span is unknown, any weight is possible. Since 6.10 the weight may count the CPU that
    /// went offline last (sched_cpu_deactivate, kernel/sched/core.c).
    fn weighs(&self, all: &Tunables) -> bool {
        let weight = all.min_interval;
        let fits = weight.checked_mul(2) == Some(all.max_interval);
        let known = |of: u64| of == weight || of.checked_add(1) == Some(weight);
        let mut weights = self.weights.iter().copied();
        fits && (self.weights.is_empty() || weights.any(known))
    }
}

/// Returns the values set by sd_init (kernel/sched/topology.c, since 5.10).
fn usual(domain: &SchedDomain, built: Option<&DomainTree>) -> Usual {
    let flags = domain.flags.as_deref().unwrap_or_default();
    let has = |names: &[&str]| flags.iter().any(|flag| names.contains(&flag.as_str()));
    let (imbalance_pct, cache_nice_tries) = if has(&["SD_SHARE_CPUCAPACITY"]) {
        (110, 0)
    } else if has(&["SD_SHARE_PKG_RESOURCES", "SD_SHARE_LLC"]) {
        (117, 1)
    } else if has(&["SD_NUMA"]) {
        (117, 2)
    } else {
        (117, 1)
    };
    // The span excludes isolated CPUs; the kernel's weight includes them.
    let same = |other: &&SchedDomain| other.name == domain.name && other.level == domain.level;
    let chain = built.and_then(|tree| tree.cpus.get(&domain.cpu));
    let whole = chain.and_then(|chain| chain.iter().find(same));
    let whole = whole.and_then(|domain| domain.span.as_ref());
    let spans = domain.span.iter().chain(whole);
    Usual {
        imbalance_pct,
        cache_nice_tries,
        weights: spans.map(|span| span.len() as u64).collect(),
    }
}
