//! Scheduler domains as a graph for Graphviz.

use std::fmt::Write as _;

use crate::tree::{DomainTree, Node};

/// Returns a directed graph with edges from outer to inner domains.
pub fn dot(tree: &DomainTree) -> String {
    let mut out =
        String::from("digraph domains {\n    node [shape=box, fontname=\"sans-serif\"];\n");
    let mut next = 0_usize;
    let forest = tree.forest(DomainTree::MAX_NODES);
    for root in &forest.roots {
        add(&mut out, root, None, &mut next);
    }
    for warning in forest.warnings {
        let _ = writeln!(out, "    // {warning}");
    }
    out.push_str("}\n");
    out
}

fn add(out: &mut String, node: &Node, parent: Option<usize>, next: &mut usize) {
    let number = *next;
    *next += 1;
    let label = escaped(&format!("{}\n{}", node.name, node.span));
    let _ = writeln!(out, "    n{number} [label=\"{label}\"];");
    if let Some(parent) = parent {
        let _ = writeln!(out, "    n{parent} -> n{number};");
    }
    for child in &node.children {
        add(out, child, Some(number), next);
    }
}

/// Escapes a label. A name from a dump may contain any character.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if control.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::SchedDomain;

    #[test]
    fn names_cannot_break_out_of_quotes() {
        let domain = SchedDomain {
            name: Some("a\"];\\\u{1b}".into()),
            ..SchedDomain::default()
        };
        let tree = DomainTree {
            cpus: [(0, vec![domain])].into(),
            ..DomainTree::default()
        };
        assert!(
            dot(&tree).contains("label=\"a\\\"];\\\\?\\n0\""),
            "{}",
            dot(&tree)
        );
    }
}
