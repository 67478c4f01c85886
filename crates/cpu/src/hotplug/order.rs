//! In which order CPUs go.
//!
//! Each CPU that goes has the kernel build the domains of all that are left, and show them (until
//! 6.3, and with sched/verbose). What that costs grows with the domains there are. A domain goes
//! away when only one CPU is left in it, so cores are emptied to one thread each before caches are
//! to one core each, packages to one cache each, and nodes: that gets rid of whole levels first.

use std::path::Path;

use crate::list::CpuList;
use crate::topology::{Partition, Topology};

/// The order in which `going` of the CPUs `online` go offline; `directory` is
/// `/sys/devices/system`. Brought up in the opposite order, they pass through the same states.
/// Where it does not tell how CPUs lie, the highest go first.
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

/// Of each set those that go, but one if none would stay; the highest first.
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

    /// Domains that kernels build and show while CPUs go in an order.
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
    fn threads_go_first_core_by_core_then_cores_of_each_socket() {
        let (.., order) = of("sockets=2 cores=2 threads=2", "1-7");
        assert_eq!(order, [7, 5, 3, 1, 6, 4, 2]);
        let (.., order) = of("cores=2 threads=4", "1-3,5-7");
        assert_eq!(order, [7, 6, 5, 3, 2, 1]);
        let (.., order) = of("sockets=2 cores=2 threads=2", "4-7");
        assert_eq!(order, [7, 5, 6, 4]);
    }

    #[test]
    fn fewer_domains_are_built_than_in_the_order_of_a_plain_loop() {
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
