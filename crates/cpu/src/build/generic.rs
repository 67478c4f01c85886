//! Masks of architectures with the kernel's generic topology (drivers/base/arch_topology.c):
//! arm64, riscv64.

use fixedbitset::FixedBitSet;

use super::rules::Rules;
use crate::topology::{Partition, Topology};

/// Returns the sets of the MC level: the smallest of node, package and last-level cache, but at
/// least the cluster (cpu_coregroup_mask).
pub(super) fn core_groups(topology: &Topology, rules: &Rules) -> Partition {
    by_cpu(topology, |cpu| core_group(topology, cpu, rules.clusters))
}

/// Returns the sets of the CLS level: clusters that are smaller than the MC level, otherwise
/// cores (cpu_clustergroup_mask).
pub(super) fn clusters(topology: &Topology) -> Partition {
    by_cpu(topology, |cpu| {
        let cluster = members(&topology.clusters, cpu)?;
        let group = core_group(topology, cpu, true)?;
        match group.is_subset(cluster) {
            true => members(&topology.cores, cpu),
            false => Some(cluster),
        }
    })
}

fn core_group(topology: &Topology, cpu: usize, clusters: bool) -> Option<&FixedBitSet> {
    let mut group = members(&topology.nodes, cpu)?;
    let package = members(&topology.packages, cpu);
    if package.is_some_and(|package| package.is_subset(group)) {
        group = package?;
    }
    let cache = members(&topology.caches, cpu).filter(|_| topology.has_caches);
    if cache.is_some_and(|cache| cache.is_subset(group)) {
        group = cache?;
    }
    let cluster = members(&topology.clusters, cpu).filter(|_| clusters);
    if cluster.is_some_and(|cluster| group.is_subset(cluster)) {
        group = cluster?;
    }
    Some(group)
}

fn members(partition: &Partition, cpu: usize) -> Option<&FixedBitSet> {
    partition.members(partition.set_of(cpu))
}

/// Returns a partition in which the set of each CPU is the set that `of` returns. Sets that
/// overlap are those of their lowest CPU.
fn by_cpu<'a>(topology: &Topology, of: impl Fn(usize) -> Option<&'a FixedBitSet>) -> Partition {
    Partition::by_key((0..topology.cpu_count()).map(|cpu| {
        let set = of(cpu);
        let first = set.and_then(FixedBitSet::minimum);
        let size = set.map_or(0, |set| set.count_ones(..));
        (first.unwrap_or(cpu), size)
    }))
}

#[cfg(test)]
mod tests {
    use crate::build::{Architecture, Rules, build};
    use crate::topology::Topology;

    fn chain(machine: &Topology, clusters: bool) -> Vec<String> {
        let rules = Rules {
            clusters,
            ..Rules::LINUX_6_12.on(Architecture::Generic)
        };
        let domains = build(machine, &"0-7".parse().unwrap(), &rules);
        let title = |domain: &crate::SchedDomain| {
            format!("{} {}", domain.title(), domain.span.as_ref().unwrap())
        };
        domains[0].iter().map(title).collect()
    }

    #[test]
    fn package_is_the_mc_level_without_a_smaller_cache() {
        // An arm64 guest of QEMU: its firmware describes one L2 of all CPUs.
        let mut machine = Topology::from_text("sockets=2 cores=4 clusters=2").unwrap();
        machine.caches = Topology::from_text("cores=8").unwrap().packages;
        assert_eq!(chain(&machine, false), ["MC 0-3", "NUMA 0-7"]);
        assert_eq!(chain(&machine, true), ["CLS 0-1", "MC 0-3", "NUMA 0-7"]);
        // No cache is described, and each core counts as one.
        machine.caches = machine.cores.clone();
        machine.has_caches = false;
        assert_eq!(chain(&machine, false), ["MC 0-3", "NUMA 0-7"]);
        // Private caches only.
        machine.has_caches = true;
        assert_eq!(chain(&machine, false), ["PKG 0-3", "NUMA 0-7"]);
    }

    #[test]
    fn cluster_of_private_caches_is_the_mc_level() {
        let mut machine = Topology::from_text("cores=8 clusters=2").unwrap();
        machine.caches = machine.cores.clone();
        assert_eq!(chain(&machine, true), ["MC 0-3", "PKG 0-7"]);
    }
}
