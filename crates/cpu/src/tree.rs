//! Snapshot of the scheduler domains of all CPUs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::domains::SchedDomain;
use crate::list::CpuList;

/// Snapshot of the scheduler domains of all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainTree {
    /// Description of the source, for display.
    pub source: String,
    /// Chain of each online CPU, smallest domain first. The chain of an isolated CPU is empty.
    pub cpus: BTreeMap<u32, Vec<SchedDomain>>,
    /// Descriptions of data that could not be read.
    pub warnings: Vec<String>,
}

/// Domains of all CPUs as trees, in which a shared domain appears once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forest {
    /// Outermost domains.
    pub roots: Vec<Node>,
    /// Descriptions of omitted data.
    pub warnings: Vec<String>,
}

/// Domain shared by all CPUs that have a domain of this name and span at this position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Name of the topology level.
    pub name: String,
    /// CPUs of the domain; if the source does not report them, the CPUs that have the domain.
    pub span: CpuList,
    /// Names of the flags, in the kernel's order.
    pub flags: Option<Vec<String>>,
    /// Domains inside this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// Maximum number of domains used of a chain, so that damaged kernel data cannot create a deep
/// tree. Every known machine has fewer: a level for each distance between nodes, and four more.
const MAX_DEPTH: usize = 32;

impl DomainTree {
    /// Number of domains that suffices for a forest of the largest machine that a text can
    /// describe, with its CPUs in pairs.
    pub const MAX_NODES: usize = 1 << 17;

    /// Returns the chains as trees with at most `most_nodes` domains in total.
    pub fn forest(&self, most_nodes: usize) -> Forest {
        let mut building = Building {
            most_nodes,
            ..Building::default()
        };
        for (cpu, chain) in &self.cpus {
            building.add(*cpu, chain);
        }
        building.finish()
    }

    /// Returns the CPUs without a domain: isolated, or the only one.
    pub fn without(&self) -> CpuList {
        let empty = self.cpus.iter().filter(|(_, chain)| chain.is_empty());
        empty.map(|(cpu, _)| *cpu).collect()
    }
}

/// Identity of a node: index of its parent, name and span.
type Key<'t> = (Option<usize>, Cow<'t, str>, Option<&'t CpuList>);

/// Forest under construction.
#[derive(Default)]
struct Building<'t> {
    nodes: Vec<SeenNode<'t>>,
    places: HashMap<Key<'t>, usize>,
    most_nodes: usize,
    is_cut: bool,
    is_too_deep: bool,
}

/// Node, with the CPUs that have it.
struct SeenNode<'t> {
    parent: Option<usize>,
    domain: &'t SchedDomain,
    cpus: Vec<u32>,
}

impl<'t> Building<'t> {
    fn add(&mut self, cpu: u32, chain: &'t [SchedDomain]) {
        self.is_too_deep |= chain.len() > MAX_DEPTH;
        let mut parent = None;
        for domain in chain.iter().rev().take(MAX_DEPTH) {
            let key = (parent, domain.title(), domain.span.as_ref());
            let next = self.nodes.len();
            let place = match self.places.get(&key) {
                Some(place) => *place,
                None if next == self.most_nodes => {
                    self.is_cut = true;
                    return;
                }
                None => {
                    self.places.insert(key, next);
                    self.nodes.push(SeenNode {
                        parent,
                        domain,
                        cpus: Vec::new(),
                    });
                    next
                }
            };
            if let Some(node) = self.nodes.get_mut(place) {
                node.cpus.push(cpu);
            }
            parent = Some(place);
        }
    }

    fn finish(self) -> Forest {
        let mut warnings = Vec::new();
        if self.is_cut {
            warnings.push(format!("only {} domains are shown", self.most_nodes));
        }
        if self.is_too_deep {
            warnings.push(format!(
                "only the {MAX_DEPTH} outermost domains of a CPU are shown"
            ));
        }
        // Children come after their parents. In reverse order, the children of each node are
        // complete.
        let mut children: Vec<Vec<Node>> = self.nodes.iter().map(|_| Vec::new()).collect();
        let mut roots = Vec::new();
        for (place, seen) in self.nodes.into_iter().enumerate().rev() {
            let mut own = children.pop().unwrap_or_default();
            own.reverse();
            let siblings = match seen.parent {
                Some(parent) if parent < place => children.get_mut(parent),
                _ => None,
            };
            siblings.unwrap_or(&mut roots).push(Node {
                name: seen.domain.title().into_owned(),
                span: match &seen.domain.span {
                    Some(span) => span.clone(),
                    None => seen.cpus.into_iter().collect(),
                },
                flags: seen.domain.flags.clone(),
                children: own,
            });
        }
        roots.reverse();
        Forest { roots, warnings }
    }
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
        let forest = found.forest(DomainTree::MAX_NODES);
        assert!(forest.warnings.is_empty());
        let roots = forest.roots;
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
    fn without_spans_a_node_has_the_cpus_seen_in_it() {
        let mut found = tree(&[&[("MC", "0")], &[("MC", "0")]]);
        for chain in found.cpus.values_mut() {
            chain[0].span = None;
        }
        assert_eq!(found.forest(9).roots[0].span.to_string(), "0-1");
    }

    #[test]
    fn tree_is_bounded_and_warns_of_omissions() {
        let deep: Vec<(&str, &str)> = [("A", "0-1")].repeat(3 * MAX_DEPTH);
        let found = tree(&[&deep, &[("A", "0-1")]]);
        let forest = found.forest(DomainTree::MAX_NODES);
        let mut depth = 0;
        let mut level = &forest.roots;
        while let [node] = &level[..] {
            depth += 1;
            level = &node.children;
        }
        assert_eq!(depth, MAX_DEPTH);
        assert!(forest.warnings[0].contains("outermost"), "{forest:?}");
        let wide = tree(&[&[("A", "0")], &[("A", "1")], &[("A", "2")]]);
        let forest = wide.forest(2);
        assert_eq!(forest.roots.len(), 2);
        assert_eq!(forest.warnings, ["only 2 domains are shown"]);
        assert!(wide.forest(3).warnings.is_empty());
    }
}
