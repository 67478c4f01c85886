//! `bigiron cpu tune show`.

use std::fmt::Write as _;

use bigiron_cpu::DomainTree;
use bigiron_cpu::source::Chains;
use bigiron_cpu::tune::{Rule, Rules, SavedValues, Tunable, save};

/// Returns the values by level, and marks those that differ from the kernel's own.
pub fn show(chains: &dyn Chains, built: Option<&DomainTree>) -> anyhow::Result<String> {
    let all = save(chains, built, SavedValues::All)?;
    let changed = save(chains, built, SavedValues::Changed)?;
    let online = chains.online()?.to_string();
    let mut out = format!("{:<10} {:<16}", "domain", "CPUs");
    for tunable in Tunable::ALL {
        let _ = write!(out, " {:>16}", tunable.name());
    }
    out.push('\n');
    for rule in &all.rules {
        let mut name = rule.domain.clone().unwrap_or_else(|| "-".into());
        if let Some(level) = rule.level {
            let _ = write!(name, " ({level})");
        }
        let cpus = rule.cpus.as_ref();
        let cpus = cpus.map_or_else(|| online.clone(), ToString::to_string);
        let _ = write!(out, "{name:<10} {cpus:<16}");
        for (tunable, value) in rule.values() {
            let mark = match differs(&changed, rule, tunable) {
                true => "*",
                false => "",
            };
            let _ = write!(out, " {:>16}", format!("{value}{mark}"));
        }
        out.push('\n');
    }
    if !changed.rules.is_empty() {
        out += "* differs from the kernel's own value\n";
    }
    Ok(out)
}

/// Returns true if a tunable of the domains of `rule` is in `changed`.
fn differs(changed: &Rules, rule: &Rule, tunable: Tunable) -> bool {
    let value = |rule: &Rule| {
        let values = rule.values();
        values.into_iter().find(|(found, _)| *found == tunable)
    };
    changed.rules.iter().any(|other| {
        let same_cpus = match (&other.cpus, &rule.cpus) {
            (Some(one), Some(other)) => !one.and(other).is_empty(),
            _ => true,
        };
        let same_level = (&other.domain, other.level) == (&rule.domain, rule.level);
        same_level && same_cpus && value(other) == value(rule)
    })
}

#[cfg(test)]
mod tests {
    use bigiron_cpu::SchedDomain;
    use bigiron_cpu::Tunables;

    use super::*;

    #[test]
    fn differing_values_are_marked() {
        let domain = |cpu, imbalance_pct| SchedDomain {
            cpu,
            name: Some("PKG".into()),
            span: "0-1".parse().ok(),
            tunables: Some(Tunables {
                min_interval: 2,
                max_interval: 4,
                busy_factor: 16,
                imbalance_pct,
                cache_nice_tries: 1,
            }),
            ..SchedDomain::default()
        };
        let tree = DomainTree {
            cpus: [(0, vec![domain(0, 117)]), (1, vec![domain(1, 140)])].into(),
            ..DomainTree::default()
        };
        let text = show(&tree, None).unwrap_or_default();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["PKG", "0", "2", "4", "16", "117", "1"]);
        assert_eq!(lines[2], ["PKG", "1", "2", "4", "16", "140*", "1"]);
        assert!(text.ends_with("* differs from the kernel's own value\n"));
    }
}
