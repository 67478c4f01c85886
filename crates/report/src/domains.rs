//! Scheduling domains of all CPUs as one tree.

use bigiron_cpu::SchedDomain;
use bigiron_inspect::{InspectError, Program, SchedDomains};
use serde::Serialize;

/// Boxes in a tree; a machine of 4096 CPUs in pairs has about as many.
const MOST_NODES: usize = 16 << 10;
/// Domains in a chain, so that a damaged kernel makes no deep tree.
const MOST_DEPTH: usize = 32;

/// The domains.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Domains {
    /// The outermost domains.
    roots: Vec<Node>,
    cpus: usize,
    /// CPUs without a domain: off line, or set apart.
    without: Vec<u32>,
    warnings: Vec<String>,
    #[serde(skip)]
    nodes: usize,
}

/// A domain, shared by all CPUs that have one of this name and span at this place.
#[derive(Debug, Serialize)]
struct Node {
    name: String,
    span: String,
    flags: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Node>,
}

impl Domains {
    pub(crate) fn of(program: &Program) -> Result<Self, InspectError> {
        let domains = SchedDomains::new(program)?;
        let mut found = Self::default();
        for cpu in domains.cpus()? {
            found.cpus += 1;
            match domains.of(cpu) {
                Ok(chain) if chain.is_empty() => found.without.push(cpu as u32),
                Ok(chain) => found.add(&chain),
                Err(error) if found.warnings.len() < MOST_DEPTH => {
                    found.warnings.push(format!("CPU {cpu}: {error}"));
                }
                Err(_) => {}
            }
        }
        Ok(found)
    }

    /// Takes in the chain of a CPU, the smallest domain first.
    fn add(&mut self, chain: &[SchedDomain]) {
        let mut level = &mut self.roots;
        for domain in chain.iter().rev().take(MOST_DEPTH) {
            let span = domain
                .span
                .as_ref()
                .map_or_else(String::new, ToString::to_string);
            let name = domain.title();
            let known = level
                .iter()
                .position(|node| node.span == span && node.name == name);
            let index = match known {
                Some(index) => index,
                None if self.nodes == MOST_NODES => {
                    let text = format!("only {MOST_NODES} domains are shown");
                    if !self.warnings.contains(&text) {
                        self.warnings.push(text);
                    }
                    return;
                }
                None => {
                    self.nodes += 1;
                    level.push(Node {
                        name,
                        span,
                        flags: domain.flags.clone().unwrap_or_default(),
                        children: Vec::new(),
                    });
                    level.len() - 1
                }
            };
            level = &mut level[index].children;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    fn domain(name: &str, span: &str) -> SchedDomain {
        SchedDomain {
            name: Some(name.into()),
            span: Some(span.parse().unwrap()),
            ..SchedDomain::default()
        }
    }

    #[test]
    fn cpus_that_share_a_domain_share_a_box() {
        let mut found = Domains::default();
        for smt in ["0-1", "2-3"] {
            for _ in 0..2 {
                found.add(&[domain("SMT", smt), domain("PKG", "0-3")]);
            }
        }
        assert_eq!(found.roots.len(), 1);
        assert_eq!(found.roots[0].span, "0-3");
        let inner: Vec<_> = found.roots[0]
            .children
            .iter()
            .map(|node| &node.span[..])
            .collect();
        assert_eq!(inner, ["0-1", "2-3"]);
    }
}
