//! Order in which CPUs go offline.
//!
//! For each CPU that goes offline, the kernel rebuilds the domains of all remaining CPUs, and
//! recreates their files (until 6.3 always, later with sched/verbose). The cost grows with the
//! number of domains. A domain disappears when only one CPU is left in it. Cores are therefore
//! reduced to one thread each first, then caches to one core each, packages to one cache each,
//! and finally nodes: whole levels disappear early.

use std::path::Path;

use crate::list::CpuList;
use crate::topology::{Partition, Topology};

/// Returns the order in which `going`, a subset of the `online` CPUs, go offline; `directory`
/// is `/sys/devices/system`. The reverse order, used to bring them online, passes through the
/// same states. If the topology cannot be read, the highest CPUs go first.
pub(super) fn order(directory: &Path, online: &CpuList, going: &CpuList) -> Vec<u32> {
    match Topology::from_directory(directory) {
        Ok(topology) => by_levels(&topology, online, going),
        Err(_) => {
            let mut order: Vec<u32> = going.iter().collect();
            order.reverse();
            order
        }
    }
}

fn by_levels(topology: &Topology, online: &CpuList, going: &CpuList) -> Vec<u32> {
    let mut left = going.clone();
    let mut order = Vec::new();
    let levels = [
        &topology.cores,
        &topology.caches,
        &topology.packages,
        &topology.nodes,
    ];
    for level in levels {
        let went = all_but_one(level, online, &left);
        left = left.without(&went.iter().copied().collect());
        order.extend(went);
    }
    let mut rest: Vec<u32> = left.iter().collect();
    rest.reverse();
    order.extend(rest);
    order
}

/// Returns the CPUs of `going` in each set, highest first, except one CPU of each set that
/// would become empty.
fn all_but_one(level: &Partition, online: &CpuList, going: &CpuList) -> Vec<u32> {
    let mut sets: std::collections::BTreeMap<usize, Vec<u32>> = Default::default();
    for cpu in going.iter() {
        sets.entry(level.set_of(cpu as usize))
            .or_default()
            .push(cpu);
    }
    let staying: std::collections::BTreeSet<usize> = online
        .without(going)
        .iter()
        .map(|cpu| level.set_of(cpu as usize))
        .collect();
    let mut went = Vec::new();
    for (set, cpus) in sets.iter().rev() {
        let kept = usize::from(!staying.contains(set));
        went.extend(cpus.iter().skip(kept).rev());
    }
    went
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{Rules, build};

    /// Returns the number of domains that a kernel builds and shows while CPUs go offline in
    /// `order`.
    fn domains(topology: &Topology, order: &[u32]) -> usize {
        let mut online: CpuList = (0..topology.cpu_count() as u32).collect();
        let mut sum = 0;
        for cpu in order {
            online = online.without(&[*cpu].into_iter().collect());
            let chains = build(topology, &online, &Rules::LINUX_6_1);
            sum += chains.iter().map(Vec::len).sum::<usize>();
        }
        sum
    }

    fn of(words: &str, going: &str) -> (Topology, CpuList, Vec<u32>) {
        let topology = Topology::from_text(words).unwrap();
        let online = (0..topology.cpu_count() as u32).collect();
        let going: CpuList = going.parse().unwrap();
        let order = by_levels(&topology, &online, &going);
        (topology, going, order)
    }

    #[test]
    fn threads_of_each_core_go_first_then_cores_of_each_socket() {
        let (.., order) = of("sockets=2 cores=2 threads=2", "1-7");
        assert_eq!(order, [7, 5, 3, 1, 6, 4, 2]);
        let (.., order) = of("cores=2 threads=4", "1-3,5-7");
        assert_eq!(order, [7, 6, 5, 3, 2, 1]);
        let (.., order) = of("sockets=2 cores=2 threads=2", "4-7");
        assert_eq!(order, [7, 5, 6, 4]);
    }

    #[test]
    fn fewer_domains_are_built_than_in_ascending_order() {
        let mut fewer = 0;
        for words in [
            "sockets=2 cores=4 threads=4",
            "sockets=2 cores=8 threads=2 caches=2",
            "sockets=4 cores=4 threads=2",
            "sockets=8 cores=4",
            "sockets=2 cores=4 threads=8 far=40",
        ] {
            for going in ["1-31", "16-31", "1,3,5,7,9,11,13,15", "4-11,20-23"] {
                let (topology, going, order) = of(words, going);
                let ours = domains(&topology, &order);
                let ascending: Vec<u32> = going.iter().collect();
                let theirs = domains(&topology, &ascending);
                assert!(ours <= theirs, "{words}, {going}: {ours}, not {theirs}");
                fewer += usize::from(ours < theirs);
            }
        }
        assert!(fewer >= 10, "{fewer}");
    }
}
