//! Groups of a domain, among which it balances. Whether a domain is kept depends only on its
//! first group and on the existence of others.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::domain::{Domain, Group};
use super::flags::Flags;
use super::levels::Level;

/// Sets the group of each domain (build_sched_groups, build_overlap_sched_groups).
pub(super) fn add_groups(chains: &mut [Vec<Domain>], levels: &[Level]) {
    // Highest level of each CPU's chain: a sibling whose chain ends below a level has no group
    // there.
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

/// Returns the CPUs of each group of a domain, in ring order: the CPU's own group comes first.
pub(super) fn ring(
    chains: &[Vec<Domain>],
    levels: &[Level],
    cpu: usize,
    index: usize,
) -> Vec<Arc<FixedBitSet>> {
    let domain_at = |cpu: usize, index: usize| chains.get(cpu)?.get(index);
    let Some(domain) = domain_at(cpu, index) else {
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
        // Chains have one domain per level, so positions are levels. A shorter chain has no
        // domain here.
        let Some(sibling) = domain_at(member, index) else {
            continue;
        };
        let child = |index: usize| domain_at(member, index.checked_sub(1)?);
        let group = match (child(index), overlap) {
            (Some(child), false) => Arc::clone(&child.span),
            (None, false) => only(member, domain.span.len()),
            (_, true) => descended(&domain.span, sibling, index, &child),
        };
        covered.union_with(&group);
        covered.insert(member);
        groups.push(group);
    }
    groups
}

/// Returns the group that a sibling's chain contributes to a domain of memory nodes
/// (find_descended_sibling, build_group_from_child_sched_domain). It must not extend beyond the
/// domain.
fn descended<'a>(
    span: &FixedBitSet,
    sibling: &'a Domain,
    index: usize,
    child: &dyn Fn(usize) -> Option<&'a Domain>,
) -> Arc<FixedBitSet> {
    let mut sibling = (sibling, index);
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
