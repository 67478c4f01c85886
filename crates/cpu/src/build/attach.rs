//! Removal of domains that do not contribute, done when a CPU gets its chain
//! (cpu_attach_domain).

use super::domain::{Domain, Group};
use super::flags::Flags;
use super::rules::Rules;

/// Returns the chain without degenerate domains.
pub(super) fn without_degenerate(chain: Vec<Domain>, rules: &Rules) -> Vec<Domain> {
    let mut kept: Vec<Domain> = Vec::new();
    // Flags that the group of the next kept domain takes over.
    let mut inherited: Option<Flags> = None;
    for mut domain in chain {
        let Some(child) = kept.last_mut() else {
            kept.push(domain);
            continue;
        };
        if is_degenerate_parent(child, &domain) {
            // The spans are equal, so the property moves to the child.
            if domain.flags.contains(Flags::PREFER_SIBLING) {
                child.flags |= Flags::PREFER_SIBLING;
            }
            inherited = rules.groups_follow.then_some(child.flags);
            continue;
        }
        if let (Some(flags), Some(group)) = (inherited.take(), &mut domain.group) {
            group.flags = flags;
        }
        kept.push(domain);
    }
    if kept.first().is_some_and(is_degenerate) {
        kept.remove(0);
        // Groups hold the flags of the domain below, which was removed.
        if let Some(group) = kept.first_mut().and_then(|domain| domain.group.as_mut()) {
            group.flags = Flags::NONE;
        }
    }
    kept
}

/// Returns true if a domain does not contribute (sd_degenerate).
fn is_degenerate(domain: &Domain) -> bool {
    if domain.span.count_ones(..) == 1 {
        return true;
    }
    let needs_groups = domain.flags.contains(Flags::NEED_GROUPS);
    !(needs_groups && has_siblings(domain) || domain.flags.contains(Flags::WAKE_AFFINE))
}

/// Returns true if a domain contributes nothing beyond its child (sd_parent_degenerate).
fn is_degenerate_parent(child: &Domain, parent: &Domain) -> bool {
    if is_degenerate(parent) {
        return true;
    }
    if child.span != parent.span {
        return false;
    }
    let mut flags = parent.flags;
    if !has_siblings(parent) {
        flags.remove(Flags::NEED_GROUPS);
    }
    flags.without(child.flags).is_empty()
}

fn has_siblings(domain: &Domain) -> bool {
    domain
        .group
        .as_ref()
        .is_some_and(|group: &Group| group.has_siblings)
}
