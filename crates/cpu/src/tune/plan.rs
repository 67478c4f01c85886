//! Changes that rules require.

use std::collections::BTreeMap;

use super::{Change, Rules, Tunable};
use crate::domains::SchedDomain;
use crate::list::CpuList;
use crate::source::Chains;
use crate::source::SourceError;

/// Result of comparing rules with the current domains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Values to change.
    pub changes: Vec<Change>,
    /// Number of values that already match.
    pub already: usize,
    /// Domains and CPUs that rules name but that do not exist, described for the user.
    pub gone: Vec<String>,
}

/// Returns the changes that `rules` require in the domains of `chains`.
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
            plan.gone.push(format!("{rule}: not found"));
            continue;
        }
        let missing = rule.cpus.as_ref().map(|cpus| cpus.without(&used));
        if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
            plan.gone
                .push(format!("{rule}: not found on CPUs {missing}"));
        }
    }
    Ok(plan)
}

/// Adds the changes for `domain`, and records its CPU for each rule that applies to it.
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
