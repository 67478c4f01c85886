//! What a domain balances among: its groups. Of them only the first one and whether
//! there are others decide what becomes of the domain.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::levels::Level;
use super::{Domain, Flags};

/// A CPU's own group of a domain: the first in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) span: Arc<FixedBitSet>,
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
        let mut child: Option<(Arc<FixedBitSet>, Flags)> = None;
        for domain in chain.iter_mut() {
            let overlap = levels.get(domain.level).is_some_and(|level| level.overlap);
            let below = child.replace((Arc::clone(&domain.span), domain.flags));
            let (span, flags) = below.unwrap_or_else(|| match overlap {
                true => (Arc::clone(&domain.span), Flags::NONE),
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

/// The CPUs of each group of a domain, in the order of the ring: that of the CPU itself first.
pub(super) fn ring(
    chains: &[Vec<Domain>],
    levels: &[Level],
    cpu: usize,
    place: usize,
) -> Vec<Arc<FixedBitSet>> {
    let domain_at = |cpu: usize, place: usize| chains.get(cpu)?.get(place);
    let Some(domain) = domain_at(cpu, place) else {
        return Vec::new();
    };
    let overlap = levels.get(domain.level).is_some_and(|level| level.overlap);
    let mut covered = FixedBitSet::with_capacity(domain.span.len());
    let mut groups = Vec::new();
    // for_each_cpu_wrap
    let from = domain.span.ones().filter(|member| *member >= cpu);
    for member in from.chain(domain.span.ones().take_while(|member| *member < cpu)) {
        if covered.contains(member) {
            continue;
        }
        // Chains have one domain for each level, so that places are levels. One that ended before has none here.
        let Some(sibling) = domain_at(member, place) else {
            continue;
        };
        let child = |place: usize| domain_at(member, place.checked_sub(1)?);
        let group = match (child(place), overlap) {
            (Some(child), false) => Arc::clone(&child.span),
            (None, false) => only(member, domain.span.len()),
            (_, true) => descended(&domain.span, sibling, place, &child),
        };
        covered.union_with(&group);
        covered.insert(member);
        groups.push(group);
    }
    groups
}

/// The group of a domain of memory nodes that a sibling's chain gives (find_descended_sibling,
/// build_group_from_child_sched_domain): it must not span out of the domain.
fn descended<'a>(
    span: &FixedBitSet,
    sibling: &'a Domain,
    place: usize,
    child: &dyn Fn(usize) -> Option<&'a Domain>,
) -> Arc<FixedBitSet> {
    let mut sibling = (sibling, place);
    let out = |at: usize| child(at).filter(|child| !child.span.is_subset(span));
    if out(sibling.1).is_some() {
        while let Some(lower) = out(sibling.1) {
            sibling = (lower, sibling.1 - 1);
        }
        while let Some(lower) = child(sibling.1).filter(|child| child.span == sibling.0.span) {
            sibling = (lower, sibling.1 - 1);
        }
    }
    Arc::clone(&child(sibling.1).unwrap_or(sibling.0).span)
}

fn only(cpu: usize, size: usize) -> Arc<FixedBitSet> {
    let mut set = FixedBitSet::with_capacity(size);
    if cpu < size {
        set.insert(cpu);
    }
    Arc::new(set)
}
