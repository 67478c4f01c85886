//! The kernel's builder of scheduler domains, for a machine that need not be there.
//!
//! It does what kernel/sched/topology.c does, in its order: levels from the bottom up until one
//! spans all CPUs (build_sched_domains), groups, then away with domains that do not
//! contribute (cpu_attach_domain).

mod attach;
mod flags;
mod groups;
mod levels;
#[cfg(test)]
mod properties;
mod sane;
mod work;

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::domains::{SchedDomain, Tunables};
use crate::list::CpuList;
use crate::topology::Topology;
pub use flags::Flags;
use groups::Group;
pub use levels::{Architecture, Level};
pub use sane::{Insane, insane, once_is_sane, pairs_are_sane};
pub use work::{Kind, Work, work};

/// What differs between kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Which levels an architecture has.
    pub architecture: Architecture,
    /// Names since 6.7 to 6.10: PKG for DIE, SD_SHARE_LLC for SD_SHARE_PKG_RESOURCES, and
    /// SD_CLUSTER for clusters.
    pub new_names: bool,
    /// Whether a group takes over the flags of what was put in its child's place (bf2dc42d6beb, 6.6).
    pub groups_follow: bool,
    /// Nodes farther apart than this are not balanced at fork and exec (node_reclaim_distance).
    pub reclaim_distance: u32,
}

impl Rules {
    /// Linux 6.1 on x86.
    pub const LINUX_6_1: Self = Self {
        architecture: Architecture::X86,
        new_names: false,
        groups_follow: false,
        // RECLAIM_DISTANCE, include/linux/topology.h.
        reclaim_distance: 30,
    };
    /// Linux 6.12 on x86.
    pub const LINUX_6_12: Self = Self {
        new_names: true,
        groups_follow: true,
        ..Self::LINUX_6_1
    };
}

/// A domain while it is built.
#[derive(Clone, Debug)]
struct Domain {
    /// Its place among the levels.
    level: usize,
    /// Its depth below all others of its CPU when it was built: the kernel's `level`.
    number: u32,
    flags: Flags,
    span: Arc<FixedBitSet>,
    /// CPUs of its level, online or not.
    weight: u64,
    imbalance_pct: u32,
    cache_nice_tries: u32,
    group: Option<Group>,
}

/// The scheduler domains of each CPU that is online, the smallest first; those of other CPUs
/// are empty.
pub fn build(topology: &Topology, online: &CpuList, rules: &Rules) -> Vec<Vec<SchedDomain>> {
    build_apart(topology, online, &CpuList::default(), rules)
}

/// The same where some CPUs are set apart (`isolcpus=`): they have no domains and are in none, but
/// the kernel counts them in intervals, and as CPUs of their nodes.
pub fn build_apart(
    topology: &Topology,
    online: &CpuList,
    isolated: &CpuList,
    rules: &Rules,
) -> Vec<Vec<SchedDomain>> {
    let (levels, chains) = chains(topology, online, isolated, rules);
    chains
        .into_iter()
        .enumerate()
        .map(|(cpu, chain)| {
            let attached = attach::without_degenerate(chain, rules);
            let domains = attached.into_iter().enumerate();
            domains
                .map(|(number, domain)| shown(cpu, number, domain, &levels, rules))
                .collect()
        })
        .collect()
}

/// The levels, and the chain of each CPU with its groups, before any domain goes.
fn chains(
    topology: &Topology,
    online: &CpuList,
    isolated: &CpuList,
    rules: &Rules,
) -> (Vec<Level>, Vec<Vec<Domain>>) {
    let online = mask_of(topology, online);
    let levels = levels::levels(topology, &online, rules);
    let mut map = online;
    map.difference_with(&mask_of(topology, isolated));
    let mut chains: Vec<Vec<Domain>> = vec![Vec::new(); topology.cpu_count()];
    for cpu in map.ones() {
        if let Some(chain) = chains.get_mut(cpu) {
            *chain = chain_of(cpu, &levels, &map, rules);
        }
    }
    groups::add_groups(&mut chains, &levels);
    (levels, chains)
}

fn mask_of(topology: &Topology, online: &CpuList) -> FixedBitSet {
    let mut map = FixedBitSet::with_capacity(topology.cpu_count());
    for cpu in online.iter().map(|cpu| cpu as usize) {
        if cpu < topology.cpu_count() {
            map.insert(cpu);
        }
    }
    map
}

/// The domains of a CPU before groups (the first loop of build_sched_domains).
fn chain_of(cpu: usize, levels: &[Level], map: &FixedBitSet, rules: &Rules) -> Vec<Domain> {
    let mut chain: Vec<Domain> = Vec::new();
    for (place, level) in levels.iter().enumerate() {
        let Some(mask) = level.mask(cpu) else {
            continue;
        };
        let mut domain = begin(place, level, mask, map, rules);
        if let Some(child) = chain.last() {
            domain.number = child.number + 1;
            // "arch topology borken": a level must hold all that is below it.
            if !child.span.is_subset(&domain.span) {
                Arc::make_mut(&mut domain.span).union_with(&child.span);
            }
        }
        let all = *domain.span == *map;
        chain.push(domain);
        if all {
            break;
        }
    }
    chain
}

/// What sd_init gives a domain.
fn begin(
    place: usize,
    level: &Level,
    mask: &Arc<FixedBitSet>,
    map: &FixedBitSet,
    rules: &Rules,
) -> Domain {
    let mut flags = Flags::BALANCE_NEWIDLE
        | Flags::BALANCE_EXEC
        | Flags::BALANCE_FORK
        | Flags::WAKE_AFFINE
        | Flags::PREFER_SIBLING
        | level.flags;
    let (mut imbalance_pct, mut cache_nice_tries) = (117, 1);
    if flags.contains(Flags::SHARE_CPUCAPACITY) {
        (imbalance_pct, cache_nice_tries) = (110, 0);
    } else if flags.contains(Flags::SHARE_LLC) {
        cache_nice_tries = 1;
    } else if flags.contains(Flags::NUMA) {
        cache_nice_tries = 2;
        flags.remove(Flags::PREFER_SIBLING);
        flags |= Flags::SERIALIZE;
        if level.distance > rules.reclaim_distance {
            flags.remove(Flags::BALANCE_EXEC | Flags::BALANCE_FORK | Flags::WAKE_AFFINE);
        }
    }
    if level.overlap {
        flags |= Flags::OVERLAP;
    }
    let mut span = Arc::clone(mask);
    if !span.is_subset(map) {
        Arc::make_mut(&mut span).intersect_with(map);
    }
    Domain {
        level: place,
        number: 0,
        flags,
        span,
        weight: mask.count_ones(..) as u64,
        imbalance_pct,
        cache_nice_tries,
        group: None,
    }
}

fn shown(
    cpu: usize,
    number: usize,
    domain: Domain,
    levels: &[Level],
    rules: &Rules,
) -> SchedDomain {
    let names = |flags: Flags| flags.names(rules.new_names);
    SchedDomain {
        cpu: cpu as u32,
        number,
        level: Some(domain.number),
        name: levels.get(domain.level).map(|level| level.name.to_owned()),
        flags: Some(names(domain.flags)),
        groups_flags: domain.group.as_ref().map(|group| names(group.flags)),
        span: Some(domain.span.ones().map(|cpu| cpu as u32).collect()),
        tunables: Some(Tunables {
            min_interval: domain.weight,
            max_interval: 2 * domain.weight,
            busy_factor: 16,
            imbalance_pct: domain.imbalance_pct,
            cache_nice_tries: domain.cache_nice_tries,
        }),
        max_newidle_lb_cost: Some(0),
        counters: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(machine: &str, online: &str) -> Vec<Vec<String>> {
        let machine = Topology::from_text(machine).unwrap();
        let domains = build(&machine, &online.parse().unwrap(), &Rules::LINUX_6_1);
        let show =
            |domain: SchedDomain| format!("{} {}", domain.title(), domain.span.as_ref().unwrap());
        domains
            .into_iter()
            .map(|chain| chain.into_iter().map(show).collect())
            .collect()
    }

    #[test]
    fn threads_caches_and_a_package() {
        let cpus = tree("cores=4 threads=2 caches=2", "0-7");
        // The example of kernel/sched/topology.c.
        assert_eq!(cpus[0], ["SMT 0-1", "MC 0-3", "DIE 0-7"]);
        assert_eq!(cpus[5], ["SMT 4-5", "MC 4-7", "DIE 0-7"]);
    }

    #[test]
    fn what_does_not_contribute_goes() {
        // Without SMT the lowest level is one CPU; a package of one cache adds nothing.
        assert_eq!(tree("cores=4", "0-3")[0], ["MC 0-3"]);
        assert_eq!(tree("cores=1", "0")[0], Vec::<String>::new());
        assert_eq!(tree("sockets=2", "0-1")[1], ["NUMA 0-1"]);
    }

    #[test]
    fn cpus_that_are_off_line_are_in_no_domain() {
        let cpus = tree("cores=4 threads=2", "0,2-7");
        assert_eq!(cpus[0], ["MC 0,2-7"]);
        assert_eq!(cpus[1], Vec::<String>::new());
        assert_eq!(cpus[2], ["SMT 2-3", "MC 0,2-7"]);
    }

    #[test]
    fn nodes_by_distance() {
        // The chain of four nodes of kernel/sched/topology.c.
        let machine = "sockets=4 distances=10,20,30,40;20,10,20,30;30,20,10,20;40,30,20,10";
        let cpus = tree(machine, "0-3");
        assert_eq!(cpus[0], ["NUMA 0-1", "NUMA 0-2", "NUMA 0-3"]);
        assert_eq!(cpus[1], ["NUMA 0-2", "NUMA 0-3"]);
        assert_eq!(cpus[3], ["NUMA 2-3", "NUMA 1-3", "NUMA 0-3"]);
    }

    #[test]
    fn flags_and_intervals_of_far_nodes() {
        let machine = Topology::from_text("sockets=2 cores=2 threads=2 far=40").unwrap();
        let domains = build(&machine, &"0-7".parse().unwrap(), &Rules::LINUX_6_12);
        let numa = domains[0].last().unwrap();
        let flags = numa.flags.clone().unwrap();
        assert_eq!(
            flags,
            [
                "SD_BALANCE_NEWIDLE",
                "SD_SERIALIZE",
                "SD_OVERLAP",
                "SD_NUMA"
            ]
        );
        let tunables = numa.tunables.unwrap();
        assert_eq!(
            (tunables.min_interval, tunables.max_interval, numa.level),
            (8, 16, Some(5))
        );
        assert_eq!(
            (tunables.imbalance_pct, tunables.cache_nice_tries),
            (117, 2)
        );
        let smt = &domains[0][0];
        let tunables = smt.tunables.unwrap();
        assert_eq!(
            (tunables.imbalance_pct, tunables.cache_nice_tries),
            (110, 0)
        );
        assert!(
            smt.flags
                .clone()
                .unwrap()
                .contains(&"SD_SHARE_LLC".to_owned())
        );
    }
}
