//! Amount of work of a domain build, which determines its duration.

use std::collections::HashMap;
use std::sync::Arc;

use super::groups::ring;
use super::{Flags, Rules, attach, chains};
use crate::list::CpuList;
use crate::topology::Topology;

/// Values of a domain that its debugfs files do not reread from memory on each access: level
/// and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Level number of the domain.
    pub level: u32,
    /// Flags of the domain.
    pub flags: Flags,
    /// Flags of the first group.
    pub groups_flags: Option<Flags>,
}

/// Amount of work for building all domains once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of CPUs with domains.
    pub cpus: usize,
    /// Number of words of a CPU mask, which covers all CPUs of the machine, online or not.
    pub words: usize,
    /// Number of domains built, including degenerate ones.
    pub built: u64,
    /// Number of domains whose sets are checked for partial overlaps: all but those of memory
    /// nodes.
    pub checked: u64,
    /// Number of domain members visited to build groups (for_each_cpu_wrap).
    pub members: u64,
    /// Number of group members whose own domains are visited (build_balance_mask), at levels of
    /// memory nodes.
    pub siblings: u64,
    /// Number of domains that remain.
    pub shown: u64,
    /// Remaining domains of each CPU.
    pub kinds: Vec<Vec<Kind>>,
}

/// Counts the work of a build, without exporting any domain.
pub fn work(topology: &Topology, online: &CpuList, rules: &Rules) -> Work {
    let (levels, chains) = chains(topology, online, &CpuList::default(), rules);
    let mut work = Work {
        words: topology.cpu_count().div_ceil(64),
        ..Work::default()
    };
    // CPUs with equal sets have the same groups, though in a different order.
    let mut in_groups: HashMap<(usize, *const _, *const _), u64> = HashMap::new();
    for (cpu, chain) in chains.iter().enumerate() {
        work.cpus += usize::from(!chain.is_empty());
        work.built += chain.len() as u64;
        let mut below = std::ptr::null();
        for (index, domain) in chain.iter().enumerate() {
            let span = Arc::as_ptr(&domain.span);
            work.members += domain.span.count_ones(..) as u64;
            if levels.get(domain.level).is_some_and(|level| level.overlap) {
                work.siblings += *in_groups.entry((index, span, below)).or_insert_with(|| {
                    let groups = ring(&chains, &levels, cpu, index);
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
    fn counts_of_a_small_machine() {
        let machine = Topology::from_text("sockets=2 cores=2 threads=2").unwrap();
        let all: CpuList = "0-7".parse().unwrap();
        let work = work(&machine, &all, &Rules::LINUX_6_1);
        // SMT, CLS (one core each), MC, DIE, NODE with four CPUs, NUMA with eight.
        assert_eq!((work.cpus, work.words, work.built), (8, 1, 8 * 6));
        assert_eq!(work.checked, 8 * 5);
        assert_eq!(work.members, 8 * (2 + 2 + 4 + 4 + 4 + 8));
        // Two groups with four CPUs each.
        assert_eq!(work.siblings, 8 * 8);
        // SMT, MC, NUMA.
        assert_eq!(work.shown, 8 * 3);
    }
}
