//! The scheduling domains of all CPUs at one moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domains::SchedDomain;
use crate::list::CpuList;

/// The scheduling domains of all CPUs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainTree {
    /// Where it comes from, for people.
    pub source: String,
    /// The chain of each CPU that is on line, the smallest domain first. A CPU that is set apart
    /// has none.
    pub cpus: BTreeMap<u32, Vec<SchedDomain>>,
    /// What could not be read, for people.
    pub warnings: Vec<String>,
}

/// A domain, shared by all CPUs that have one of this name and span at this place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The level's name.
    pub name: String,
    /// The CPUs in it; of a source that does not tell, those that were seen to be in it.
    pub span: CpuList,
    /// The flags, in the order of the kernel.
    pub flags: Option<Vec<String>>,
    /// What it is made of.
    pub children: Vec<Node>,
}

impl DomainTree {
    /// The chains as trees: what CPUs share is there once.
    pub fn roots(&self) -> Vec<Node> {
        let mut roots: Vec<Building> = Vec::new();
        for (cpu, chain) in &self.cpus {
            let mut level = &mut roots;
            for domain in chain.iter().rev() {
                let place = find_or_add(level, domain, *cpu);
                let Some(node) = level.get_mut(place) else {
                    break;
                };
                level = &mut node.children;
            }
        }
        roots.into_iter().map(Building::finish).collect()
    }

    /// CPUs without a domain: set apart, or alone.
    pub fn without(&self) -> CpuList {
        let empty = self.cpus.iter().filter(|(_, chain)| chain.is_empty());
        empty.map(|(cpu, _)| *cpu).collect()
    }
}

/// A node while CPUs come in.
struct Building {
    name: String,
    span: Option<CpuList>,
    seen: Vec<u32>,
    flags: Option<Vec<String>>,
    children: Vec<Building>,
}

impl Building {
    fn finish(self) -> Node {
        Node {
            name: self.name,
            span: self.span.unwrap_or_else(|| self.seen.into_iter().collect()),
            flags: self.flags,
            children: self.children.into_iter().map(Self::finish).collect(),
        }
    }
}

/// The place of the node of `domain` among those of its level. CPUs come in order, so that the
/// one looked for is mostly the last.
fn find_or_add(level: &mut Vec<Building>, domain: &SchedDomain, cpu: u32) -> usize {
    let name = domain.title();
    let same = |node: &Building| node.name == name && node.span == domain.span;
    if let Some(place) = level.iter().rposition(same) {
        if let Some(node) = level.get_mut(place) {
            node.seen.push(cpu);
        }
        return place;
    }
    level.push(Building {
        name,
        span: domain.span.clone(),
        seen: vec![cpu],
        flags: domain.flags.clone(),
        children: Vec::new(),
    });
    level.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn tree(cpus: &[&[(&str, &str)]]) -> DomainTree {
        let chain = |cpu: u32, chain: &[(&str, &str)]| -> Vec<SchedDomain> {
            let domains = chain.iter().enumerate();
            domains
                .map(|(number, (name, span))| SchedDomain {
                    cpu,
                    number,
                    name: Some((*name).to_owned()),
                    span: Some(span.parse().unwrap()),
                    ..SchedDomain::default()
                })
                .collect()
        };
        let cpus = cpus.iter().enumerate();
        DomainTree {
            cpus: cpus
                .map(|(cpu, domains)| (cpu as u32, chain(cpu as u32, domains)))
                .collect(),
            ..DomainTree::default()
        }
    }

    #[test]
    fn cpus_that_share_a_domain_share_a_node() {
        let (low, high) = (
            [("SMT", "0-1"), ("PKG", "0-3")],
            [("SMT", "2-3"), ("PKG", "0-3")],
        );
        let found = tree(&[&low, &low, &high, &high, &[]]);
        let roots = found.roots();
        assert_eq!(roots.len(), 1);
        assert_eq!(roots[0].span.to_string(), "0-3");
        let inner: Vec<_> = roots[0]
            .children
            .iter()
            .map(|node| node.span.to_string())
            .collect();
        assert_eq!(inner, ["0-1", "2-3"]);
        assert_eq!(found.without().to_string(), "4");
    }

    #[test]
    fn without_spans_those_seen_together_are_told() {
        let mut found = tree(&[&[("MC", "0")], &[("MC", "0")]]);
        for chain in found.cpus.values_mut() {
            chain[0].span = None;
        }
        assert_eq!(found.roots()[0].span.to_string(), "0-1");
    }
}
