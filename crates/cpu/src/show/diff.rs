//! Differences between two snapshots of the scheduler domains.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::domains::SchedDomain;
use crate::tree::DomainTree;

/// Difference in the domains of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// CPU number.
    pub cpu: u32,
    /// Position in the CPU's chain; `None` for the CPU itself.
    pub number: Option<usize>,
    /// Name of the changed property: `online`, or the name of a kernel file.
    pub what: &'static str,
    /// Old value; `None` if it did not exist.
    pub before: Option<String>,
    /// New value; `None` if it no longer exists.
    pub after: Option<String>,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cpu{}", self.cpu)?;
        if let Some(number) = self.number {
            write!(f, "/domain{number}")?;
        }
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
        write!(
            f,
            " {}: {} -> {}",
            self.what,
            side(&self.before),
            side(&self.after)
        )
    }
}

/// Returns the differences, CPU by CPU. Counters and costs change constantly and are ignored.
pub fn changes(before: &DomainTree, after: &DomainTree) -> Vec<Change> {
    let cpus: BTreeSet<u32> = before
        .cpus
        .keys()
        .chain(after.cpus.keys())
        .copied()
        .collect();
    let mut changes = Vec::new();
    for cpu in cpus {
        let (old, new) = (before.cpus.get(&cpu), after.cpus.get(&cpu));
        if old.is_some() != new.is_some() {
            let shown = |there: bool| Some(if there { "yes" } else { "no" }.to_owned());
            changes.push(Change {
                cpu,
                number: None,
                what: "online",
                before: shown(old.is_some()),
                after: shown(new.is_some()),
            });
            continue;
        }
        let (old, new) = (
            old.map_or(&[][..], |chain| chain),
            new.map_or(&[][..], |chain| chain),
        );
        for number in 0..old.len().max(new.len()) {
            compare(cpu, number, old.get(number), new.get(number), &mut changes);
        }
    }
    changes
}

fn compare(
    cpu: u32,
    number: usize,
    old: Option<&SchedDomain>,
    new: Option<&SchedDomain>,
    changes: &mut Vec<Change>,
) {
    /// File that changes with every load balancing.
    const VOLATILE: &str = "max_newidle_lb_cost";
    let files = |domain: Option<&SchedDomain>| domain.map(SchedDomain::files).unwrap_or_default();
    let (old, new) = (files(old), files(new));
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in old.iter().chain(&new) {
        if !names.contains(name) && *name != VOLATILE {
            names.push(name);
        }
    }
    for what in names {
        let value = |files: &[(&str, String)]| {
            let file = files.iter().find(|(name, _)| *name == what);
            file.map(|(_, text)| text.trim_end().to_owned())
        };
        let (before, after) = (value(&old), value(&new));
        if before != after {
            changes.push(Change {
                cpu,
                number: Some(number),
                what,
                before,
                after,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(spans: &[(u32, &str)]) -> DomainTree {
        let chain = |cpu: u32, span: &str| {
            vec![SchedDomain {
                cpu,
                name: Some("MC".into()),
                span: Some(span.parse().unwrap()),
                max_newidle_lb_cost: Some(u64::from(cpu) + span.len() as u64),
                ..SchedDomain::default()
            }]
        };
        let cpus = spans.iter().map(|(cpu, span)| (*cpu, chain(*cpu, span)));
        DomainTree {
            cpus: cpus.collect(),
            ..DomainTree::default()
        }
    }

    #[test]
    fn offline_cpu_changes_the_spans_of_the_others() {
        let (before, after) = (
            tree(&[(0, "0-2"), (1, "0-2"), (2, "0-2")]),
            tree(&[(0, "0,2"), (2, "0,2")]),
        );
        let lines: Vec<_> = changes(&before, &after)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "cpu0/domain0 span: 0-2 -> 0,2",
            "cpu1 online: yes -> no",
            "cpu2/domain0 span: 0-2 -> 0,2",
        ];
        assert_eq!(lines, expected);
        assert!(changes(&before, &before).is_empty());
    }
}
