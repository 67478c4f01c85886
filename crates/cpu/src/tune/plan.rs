//! What must change for domains to be as rules want them.

use std::collections::BTreeMap;

use super::{Change, Rules, Tunable};
use crate::domains::SchedDomain;
use crate::files::Chains;
use crate::list::CpuList;
use crate::source::SourceError;

/// What must change, what need not, and what cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Values that are others.
    pub changes: Vec<Change>,
    /// Values that are as they are wanted.
    pub already: usize,
    /// What rules are for, and is not there any more, for people.
    pub gone: Vec<String>,
}

/// What must change for the domains of `chains` to be as `rules` want them.
///
/// # Errors
/// The domains cannot be read.
pub fn plan(rules: &Rules, chains: &dyn Chains) -> Result<Plan, SourceError> {
    let mut plan = Plan::default();
    let online = chains.online()?;
    let mut seen: Vec<Vec<u32>> = vec![Vec::new(); rules.rules.len()];
    for cpu in online.iter() {
        for domain in chains.chain(cpu)? {
            add(&mut plan, rules, &domain, &mut seen);
        }
    }
    for (rule, seen) in rules.rules.iter().zip(seen) {
        let used: CpuList = seen.into_iter().collect();
        if used.is_empty() {
            plan.gone.push(format!("{rule}: there is none"));
            continue;
        }
        let missing = rule.cpus.as_ref().map(|cpus| cpus.without(&used));
        if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
            plan.gone.push(format!("{rule}: CPUs {missing} have none"));
        }
    }
    Ok(plan)
}

/// Adds what `domain` needs, and notes its CPU for each rule that is for it.
fn add(plan: &mut Plan, rules: &Rules, domain: &SchedDomain, seen: &mut [Vec<u32>]) {
    let mut wanted: BTreeMap<Tunable, u64> = BTreeMap::new();
    for (rule, seen) in rules.rules.iter().zip(seen) {
        if rule.is_for(domain) {
            seen.push(domain.cpu);
            wanted.extend(rule.values());
        }
    }
    for (tunable, value) in wanted {
        match &domain.tunables {
            Some(tunables) if tunable.of(tunables) == value => plan.already += 1,
            _ => plan.changes.push(Change::of(domain, tunable, value)),
        }
    }
}
