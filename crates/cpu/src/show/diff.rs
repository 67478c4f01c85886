//! What changed between two moments.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::domains::SchedDomain;
use crate::tree::DomainTree;

/// A change of a CPU's domains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The CPU.
    pub cpu: u32,
    /// The place in its chain; `None` for the CPU itself.
    pub number: Option<usize>,
    /// What changed: `online`, or the name of a file of the kernel.
    pub what: &'static str,
    /// What it was; `None` if it was not there.
    pub before: Option<String>,
    /// What it is; `None` if it is not there any more.
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

/// What differs, CPU by CPU. Counters and costs change all the time and are left out.
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
    /// Changes with every balancing.
    const RESTLESS: &str = "max_newidle_lb_cost";
    let files = |domain: Option<&SchedDomain>| domain.map(SchedDomain::files).unwrap_or_default();
    let (old, new) = (files(old), files(new));
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in old.iter().chain(&new) {
        if !names.contains(name) && *name != RESTLESS {
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
    fn a_cpu_that_went_changes_the_others_spans() {
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
