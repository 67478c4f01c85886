//! Nodes that hold memory.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::{Numa, system};
use crate::region::Region;

/// Placement of a sample of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSample {
    /// Number of pages on each node, by the node's number.
    pub nodes: BTreeMap<usize, usize>,
    /// Number of pages in the sample that do not exist, or are not mapped in this process.
    pub absent: usize,
    /// True if all pages are on the nodes of the policy, and, with interleaving, each of these
    /// nodes has some; `None` without such a policy.
    pub kept: Option<bool>,
}

/// Determines the nodes of the pages of any memory of this process, from a sample of `samples`
/// pages. `page` is the page size in bytes, and `numa` the intended placement.
pub fn sample(
    region: Region,
    page: usize,
    samples: usize,
    numa: &Numa,
) -> Result<NodeSample, Errno> {
    let pages = region.length() / page;
    let count = samples.clamp(1, pages.max(1));
    // At irregular distances: at regular ones the sample could miss nodes of an interleaving
    // policy.
    let addresses: Vec<usize> = (0..count)
        .map(|number| number as u128 * pages as u128 / count as u128)
        .map(|number| (number as usize ^ ((number as usize / 7) & 3)).min(pages.saturating_sub(1)))
        .map(|number| region.start() + number * page)
        .collect();
    let mut placement = NodeSample {
        nodes: BTreeMap::new(),
        absent: 0,
        kept: None,
    };
    for node in system::nodes_of(&addresses)? {
        match usize::try_from(node) {
            Ok(node) => *placement.nodes.entry(node).or_default() += 1,
            Err(_) => placement.absent += 1,
        }
    }
    placement.kept = kept(&placement.nodes, numa);
    Ok(placement)
}

fn kept(found: &BTreeMap<usize, usize>, numa: &Numa) -> Option<bool> {
    let within = |nodes: &[usize]| found.keys().all(|node| nodes.contains(node));
    let total: usize = found.values().sum();
    match numa {
        Numa::Local | Numa::Spread => None,
        Numa::Bind(nodes) => Some(within(nodes)),
        Numa::Interleave(nodes) => {
            // A small sample may miss a node.
            let enough = total >= 16 * nodes.len();
            let all = nodes.iter().all(|node| found.contains_key(node));
            Some(within(nodes) && (all || !enough))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_is_compared_with_the_policy() {
        let found = |nodes: &[(usize, usize)]| nodes.iter().copied().collect();
        let bind = Numa::Bind(vec![0, 1]);
        assert_eq!(kept(&found(&[(1, 100)]), &bind), Some(true));
        assert_eq!(kept(&found(&[(1, 100), (2, 1)]), &bind), Some(false));
        let turns = Numa::Interleave(vec![0, 1]);
        assert_eq!(kept(&found(&[(0, 50), (1, 50)]), &turns), Some(true));
        assert_eq!(kept(&found(&[(0, 100)]), &turns), Some(false));
        assert_eq!(kept(&found(&[(0, 3)]), &turns), Some(true));
        assert_eq!(kept(&found(&[(0, 3)]), &Numa::Local), None);
    }
}
