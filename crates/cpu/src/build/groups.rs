//! What a domain balances among: its groups. Of them only the first one and whether
//! there are others decide what becomes of the domain.

use fixedbitset::FixedBitSet;

use super::levels::Level;
use super::{Domain, Flags};

/// A CPU's own group of a domain: the first in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) span: FixedBitSet,
    pub(super) flags: Flags,
    /// Whether the ring has others.
    pub(super) has_siblings: bool,
}

/// Gives each domain its group (build_sched_groups, build_overlap_sched_groups).
pub(super) fn add_groups(chains: &mut [Vec<Domain>], levels: &[Level]) {
    // How far each CPU's chain goes up: a sibling whose chain ended before a level has no group there.
    let top: Vec<Option<usize>> = chains
        .iter()
        .map(|chain| chain.last().map(|domain| domain.level))
        .collect();
    let reaches = |cpu: usize, level: usize| top.get(cpu).copied().flatten() >= Some(level);
    for (cpu, chain) in chains.iter_mut().enumerate() {
        let mut child: Option<(FixedBitSet, Flags)> = None;
        for domain in chain.iter_mut() {
            let overlap = levels.get(domain.level).is_some_and(|level| level.overlap);
            let below = child.replace((domain.span.clone(), domain.flags));
            let (span, flags) = below.unwrap_or_else(|| match overlap {
                true => (domain.span.clone(), Flags::NONE),
                false => (only(cpu, domain.span.len()), Flags::NONE),
            });
            let has_siblings = domain
                .span
                .difference(&span)
                .any(|sibling| !overlap || reaches(sibling, domain.level));
            domain.group = Some(Group {
                span,
                flags,
                has_siblings,
            });
        }
    }
}

fn only(cpu: usize, size: usize) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(size);
    if cpu < size {
        set.insert(cpu);
    }
    set
}
