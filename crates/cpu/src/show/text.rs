//! Scheduler domains as an indented tree.

use std::fmt::Write as _;

use crate::tree::{DomainTree, Node};

/// Amount of detail in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Only the first of similar neighbours, and their number.
    Alike,
    /// All domains.
    All,
}

/// Number of similar neighbours above which they are combined.
const FEW: usize = 2;

/// Returns the tree with one domain per line.
pub fn text(tree: &DomainTree, detail: Detail) -> String {
    let mut out = String::new();
    let forest = tree.forest(DomainTree::MAX_NODES);
    write_level(&mut out, &forest.roots, "", detail);
    for warning in forest.warnings {
        let _ = writeln!(out, "{warning}");
    }
    let without = tree.without();
    if !without.is_empty() {
        let _ = writeln!(out, "without domains: {without}");
    }
    out
}

fn write_level(out: &mut String, nodes: &[Node], indent: &str, detail: Detail) {
    let mut rest = nodes;
    while let Some((node, others)) = rest.split_first() {
        let alike = others
            .iter()
            .take_while(|other| is_alike(node, other))
            .count();
        let together = match detail {
            Detail::Alike if alike + 1 > FEW => alike,
            _ => 0,
        };
        let after = others.get(together..).unwrap_or_default();
        let last = after.is_empty();
        let is_root = indent.is_empty();
        // Roots are not indented; branches connect the domains below them.
        let (branch, below) = match (is_root, last) {
            (true, _) => ("", ""),
            (false, true) => ("└─ ", "   "),
            (false, false) => ("├─ ", "│  "),
        };
        let trunk = indent.strip_prefix(ROOT).unwrap_or(indent);
        let _ = write!(out, "{trunk}{branch}{} {}", node.name, node.span);
        if together > 0 {
            let until = others
                .get(together - 1)
                .map_or(&node.span, |other| &other.span);
            let _ = write!(out, "  and {together} more like it, to {until}");
        }
        if let Some(flags) = node.flags.as_ref().filter(|_| detail == Detail::All) {
            let _ = write!(out, "  {}", flags.join(" "));
        }
        out.push('\n');
        let deeper = match is_root {
            true => ROOT.to_owned(),
            false => format!("{indent}{below}"),
        };
        write_level(out, &node.children, &deeper, detail);
        rest = after;
    }
}

/// Marks the indentation below a root, which is empty.
const ROOT: &str = "\u{1}";

/// Returns true if two nodes have the same shape: names, flags and numbers of CPUs, at all
/// depths.
fn is_alike(one: &Node, other: &Node) -> bool {
    one.name == other.name
        && one.span.len() == other.span.len()
        && one.flags == other.flags
        && one.children.len() == other.children.len()
        && one
            .children
            .iter()
            .zip(&other.children)
            .all(|(one, other)| is_alike(one, other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{Rules, build};
    use crate::topology::Topology;

    fn machine(words: &str) -> DomainTree {
        let topology = Topology::from_text(words).unwrap();
        let online = (0..topology.cpu_count() as u32).collect();
        let chains = build(&topology, &online, &Rules::LINUX_6_12);
        DomainTree {
            cpus: (0..).zip(chains).collect(),
            ..DomainTree::default()
        }
    }

    #[test]
    fn similar_neighbours_are_combined() {
        let tree = machine("sockets=2 cores=4 threads=2");
        let expected = "\
NUMA 0-15
├─ MC 0-7
│  └─ SMT 0-1  and 3 more like it, to 6-7
└─ MC 8-15
   └─ SMT 8-9  and 3 more like it, to 14-15
";
        assert_eq!(text(&tree, Detail::Alike), expected);
        let all = text(&tree, Detail::All);
        assert_eq!(all.lines().count(), 11);
        assert!(all.contains("SMT 14-15  SD_BALANCE_NEWIDLE"), "{all}");
    }

    #[test]
    fn cpus_without_domains_are_listed() {
        assert_eq!(
            text(&machine("cores=1"), Detail::Alike),
            "without domains: 0\n"
        );
    }
}
