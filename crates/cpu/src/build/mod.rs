//! Builds scheduler domains as the kernel would, for a machine that need not exist.
//!
//! The builder follows kernel/sched/topology.c step by step: levels from the bottom up until
//! one spans all CPUs (build_sched_domains), groups, then the removal of domains that do not
//! contribute (cpu_attach_domain).

mod attach;
mod capacity;
mod domain;
mod flags;
mod generic;
mod groups;
mod levels;
#[cfg(test)]
mod properties;
mod rules;
mod sane;
mod work;

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::domains::{SchedDomain, Tunables};
use crate::list::CpuList;
use crate::topology::Topology;
use capacity::Capacities;
use domain::Domain;
pub use flags::Flags;
pub use levels::Level;
pub use rules::{Architecture, Rules};
pub use sane::{InconsistentLevel, insane, once_is_sane, pairs_are_sane};
pub use work::{Kind, Work, work};

/// Returns the scheduler domains of each online CPU, smallest first; other CPUs have none.
pub fn build(topology: &Topology, online: &CpuList, rules: &Rules) -> Vec<Vec<SchedDomain>> {
    build_apart(topology, online, &CpuList::default(), rules)
}

/// Builds domains like [`build`], with some CPUs isolated (`isolcpus=`). These have no domains
/// and belong to none, but the kernel counts them in intervals, and as CPUs of their nodes.
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

/// Returns the levels, and each CPU's chain with its groups, before any domain is removed.
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
    let capacities = Capacities::new(topology, &map);
    for cpu in map.ones() {
        if let Some(chain) = chains.get_mut(cpu) {
            *chain = chain_of(cpu, &levels, &map, &capacities, rules);
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

/// Returns the domains of a CPU, without groups (the first loop of build_sched_domains).
fn chain_of(
    cpu: usize,
    levels: &[Level],
    map: &FixedBitSet,
    capacities: &Capacities,
    rules: &Rules,
) -> Vec<Domain> {
    let mut chain: Vec<Domain> = Vec::new();
    for (index, level) in levels.iter().enumerate() {
        let Some(mask) = level.mask(cpu) else {
            continue;
        };
        let mut domain = begin(index, level, mask, map, rules);
        domain.flags |= capacities.flags(&domain.span);
        if let Some(child) = chain.last_mut() {
            if domain.flags.contains(Flags::ASYM_CPUCAPACITY) {
                child.flags.remove(Flags::PREFER_SIBLING);
            }
            domain.number = child.number + 1;
            // "arch topology borken": a level must contain the levels below it.
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

/// Returns a domain as initialized by sd_init.
fn begin(
    index: usize,
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
        level: index,
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
    fn levels_of_threads_caches_and_a_package() {
        let cpus = tree("cores=4 threads=2 caches=2", "0-7");
        // Example in kernel/sched/topology.c.
        assert_eq!(cpus[0], ["SMT 0-1", "MC 0-3", "DIE 0-7"]);
        assert_eq!(cpus[5], ["SMT 4-5", "MC 4-7", "DIE 0-7"]);
    }

    #[test]
    fn domains_that_do_not_contribute_are_removed() {
        // Without SMT, the lowest level has one CPU; a package with one cache adds nothing.
        assert_eq!(tree("cores=4", "0-3")[0], ["MC 0-3"]);
        assert_eq!(tree("cores=1", "0")[0], Vec::<String>::new());
        assert_eq!(tree("sockets=2", "0-1")[1], ["NUMA 0-1"]);
    }

    #[test]
    fn offline_cpus_are_in_no_domain() {
        let cpus = tree("cores=4 threads=2", "0,2-7");
        assert_eq!(cpus[0], ["MC 0,2-7"]);
        assert_eq!(cpus[1], Vec::<String>::new());
        assert_eq!(cpus[2], ["SMT 2-3", "MC 0,2-7"]);
    }

    #[test]
    fn node_levels_follow_distances() {
        // Chain of four nodes in kernel/sched/topology.c.
        let machine = "sockets=4 distances=10,20,30,40;20,10,20,30;30,20,10,20;40,30,20,10";
        let cpus = tree(machine, "0-3");
        assert_eq!(cpus[0], ["NUMA 0-1", "NUMA 0-2", "NUMA 0-3"]);
        assert_eq!(cpus[1], ["NUMA 0-2", "NUMA 0-3"]);
        assert_eq!(cpus[3], ["NUMA 2-3", "NUMA 1-3", "NUMA 0-3"]);
    }

    #[test]
    fn flags_and_intervals_of_distant_nodes() {
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
