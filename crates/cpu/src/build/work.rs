//! How much there is to do for a builder of domains: what its time depends on.

use std::collections::HashMap;
use std::sync::Arc;

use super::groups::ring;
use super::{Flags, Rules, attach, chains};
use crate::list::CpuList;
use crate::topology::Topology;

/// What debugfs shows of a domain that is not read from memory at each look: its place and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its level.
    pub level: u32,
    /// Its flags.
    pub flags: Flags,
    /// Its first group's.
    pub groups_flags: Option<Flags>,
}

/// What building all domains once takes, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// CPUs that have domains.
    pub cpus: usize,
    /// Words of a mask: as many as the machine's CPUs need, online or not.
    pub words: usize,
    /// Domains that are built, degenerate ones among them.
    pub built: u64,
    /// Domains whose sets are checked for overlaps in part: all but those of memory nodes.
    pub checked: u64,
    /// Members of domains that are gone through for groups (for_each_cpu_wrap).
    pub members: u64,
    /// Members of groups whose own domains are looked at (build_balance_mask), at levels of memory
    /// nodes.
    pub siblings: u64,
    /// Domains that stay.
    pub shown: u64,
    /// Those of each CPU.
    pub kinds: Vec<Vec<Kind>>,
}

/// Counts it, without showing any domain.
pub fn work(topology: &Topology, online: &CpuList, rules: &Rules) -> Work {
    let (levels, chains) = chains(topology, online, &CpuList::default(), rules);
    let mut work = Work {
        words: topology.cpu_count().div_ceil(64),
        ..Work::default()
    };
    // CPUs with the same sets have the same groups, though not in the same order.
    let mut in_groups: HashMap<(usize, *const _, *const _), u64> = HashMap::new();
    for (cpu, chain) in chains.iter().enumerate() {
        work.cpus += usize::from(!chain.is_empty());
        work.built += chain.len() as u64;
        let mut below = std::ptr::null();
        for (place, domain) in chain.iter().enumerate() {
            let span = Arc::as_ptr(&domain.span);
            work.members += domain.span.count_ones(..) as u64;
            if levels.get(domain.level).is_some_and(|level| level.overlap) {
                work.siblings += *in_groups.entry((place, span, below)).or_insert_with(|| {
                    let groups = ring(&chains, &levels, cpu, place);
                    let members = groups.iter().map(|group| group.count_ones(..) as u64);
                    members.sum()
                });
            } else {
                work.checked += 1;
            }
            below = span;
        }
    }
    let kinds = chains.into_iter().map(|chain| {
        let stay = attach::without_degenerate(chain, rules);
        let kind = |domain: &super::Domain| Kind {
            level: domain.number,
            flags: domain.flags,
            groups_flags: domain.group.as_ref().map(|group| group.flags),
        };
        stay.iter().map(kind).collect::<Vec<_>>()
    });
    work.kinds = kinds.collect();
    work.shown = work.kinds.iter().map(|kinds| kinds.len() as u64).sum();
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_is_counted_by_hand() {
        let machine = Topology::from_text("sockets=2 cores=2 threads=2").unwrap();
        let all: CpuList = "0-7".parse().unwrap();
        let work = work(&machine, &all, &Rules::LINUX_6_1);
        // SMT, CLS (a core each), MC, DIE, NODE of four CPUs, NUMA of eight.
        assert_eq!((work.cpus, work.words, work.built), (8, 1, 8 * 6));
        assert_eq!(work.checked, 8 * 5);
        assert_eq!(work.members, 8 * (2 + 2 + 4 + 4 + 4 + 8));
        // Two groups, of four CPUs each.
        assert_eq!(work.siblings, 8 * 8);
        // SMT, MC, NUMA.
        assert_eq!(work.shown, 8 * 3);
    }
}
