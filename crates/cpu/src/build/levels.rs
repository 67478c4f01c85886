//! Topology levels of a machine, from the bottom up (default_topology, sched_init_numa).

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::flags::Flags;
use super::generic;
use super::rules::{Architecture, Rules};
use crate::topology::Topology;

/// Topology level, which assigns a set of CPUs to each CPU.
#[derive(Clone, Debug)]
pub struct Level {
    /// The kernel's name of the level.
    pub name: &'static str,
    /// Flags that the level adds to its domains.
    pub flags: Flags,
    /// True if sets may overlap, as at levels of memory nodes.
    pub overlap: bool,
    /// Distance up to which memory nodes belong together; 0 for other levels.
    pub distance: u32,
    /// Index of each CPU's set in `sets`.
    of: Vec<u32>,
    sets: Vec<Arc<FixedBitSet>>,
}

impl Level {
    /// Returns the set of CPUs to which `cpu` belongs.
    pub fn mask(&self, cpu: usize) -> Option<&Arc<FixedBitSet>> {
        self.sets.get(*self.of.get(cpu)? as usize)
    }
}

/// Returns all levels for the CPUs in `map`.
pub(super) fn levels(topology: &Topology, map: &FixedBitSet, rules: &Rules) -> Vec<Level> {
    let count = topology.cpu_count();
    let level = |name, flags, set_of: &dyn Fn(usize) -> (usize, FixedBitSet)| {
        partitioned(name, flags, count, map, set_of)
    };
    let of = |partition: &crate::topology::Partition, cpu: usize| {
        let set = partition.set_of(cpu);
        (set, partition.members(set).cloned().unwrap_or_default())
    };
    let shares_core = Flags::SHARE_CPUCAPACITY | Flags::SHARE_LLC;
    let cluster = match rules.new_names {
        true => Flags::CLUSTER | Flags::SHARE_LLC,
        false => Flags::SHARE_LLC,
    };
    let mut levels = vec![level("SMT", shares_core, &|cpu| of(&topology.cores, cpu))];
    match rules.architecture {
        Architecture::Power => {
            // The kernel combines levels with the same mask (fixup_topology), since 6.8 it does
            // not create them (build_sched_topology).
            if !rules.new_names || topology.clusters != topology.cores {
                levels.push(level("CACHE", Flags::SHARE_LLC, &|cpu| {
                    of(&topology.clusters, cpu)
                }));
            }
            if topology.caches != topology.clusters {
                levels.push(level("MC", Flags::NONE, &|cpu| of(&topology.caches, cpu)));
            }
        }
        Architecture::X86 => {
            levels.push(level("CLS", cluster, &|cpu| of(&topology.clusters, cpu)));
            levels.push(level("MC", Flags::SHARE_LLC, &|cpu| {
                of(&topology.caches, cpu)
            }));
        }
        Architecture::Generic => {
            if rules.clusters {
                let clusters = generic::clusters(topology);
                levels.push(level("CLS", cluster, &|cpu| of(&clusters, cpu)));
            }
            let groups = generic::core_groups(topology, rules);
            levels.push(level("MC", Flags::SHARE_LLC, &|cpu| of(&groups, cpu)));
        }
    }
    if rules.architecture != Architecture::X86 || !nodes_in_package(topology) {
        let name = if rules.new_names { "PKG" } else { "DIE" };
        levels.push(level(name, Flags::NONE, &|cpu| of(&topology.nodes, cpu)));
    }
    levels.extend(numa(topology, map));
    levels
}

/// Returns true if a package has CPUs of two nodes (x86_has_numa_in_package).
fn nodes_in_package(topology: &Topology) -> bool {
    let mut node_of = vec![None; topology.packages.count()];
    (0..topology.cpu_count()).any(|cpu| {
        let node = topology.nodes.set_of(cpu);
        match node_of.get_mut(topology.packages.set_of(cpu)) {
            Some(first) => *first.get_or_insert(node) != node,
            None => false,
        }
    })
}

/// Returns a level whose sets do not overlap. Like the kernel's masks, the sets contain only
/// online CPUs.
fn partitioned(
    name: &'static str,
    flags: Flags,
    count: usize,
    map: &FixedBitSet,
    set_of: &dyn Fn(usize) -> (usize, FixedBitSet),
) -> Level {
    let mut sets: Vec<Arc<FixedBitSet>> = Vec::new();
    let mut numbers = std::collections::HashMap::new();
    let of = (0..count)
        .map(|cpu| {
            let (set, mut members) = set_of(cpu);
            *numbers.entry(set).or_insert_with(|| {
                members.intersect_with(map);
                sets.push(Arc::new(members));
                sets.len() as u32 - 1
            })
        })
        .collect();
    Level {
        name,
        flags,
        overlap: false,
        distance: 0,
        of,
        sets,
    }
}

/// Returns NODE, and a level for each further distance between nodes that have CPUs.
fn numa(topology: &Topology, map: &FixedBitSet) -> Vec<Level> {
    let nodes: Vec<FixedBitSet> = (0..topology.nodes.count())
        .filter_map(|node| topology.nodes.members(node).cloned())
        .map(|mut members| {
            members.intersect_with(map);
            members
        })
        .collect();
    let has_cpus = |node: &usize| nodes.get(*node).is_some_and(|node| !node.is_clear());
    let between = |from: usize, to: usize| {
        let row = topology.distances.get(from);
        row.and_then(|row| row.get(to)).copied().unwrap_or(0)
    };
    let alive: Vec<usize> = (0..nodes.len()).filter(has_cpus).collect();
    let mut distances: Vec<u32> = alive
        .iter()
        .flat_map(|from| alive.iter().map(move |to| (*from, *to)))
        .map(|(from, to)| between(from, to))
        .collect();
    distances.sort_unstable();
    distances.dedup();
    let of: Vec<u32> = (0..topology.cpu_count())
        .map(|cpu| topology.nodes.set_of(cpu) as u32)
        .collect();
    let level = |(index, distance): (usize, &u32)| {
        let within = |from: usize| {
            let mut set = FixedBitSet::with_capacity(topology.cpu_count());
            for to in alive.iter().filter(|to| between(from, **to) <= *distance) {
                if let Some(node) = nodes.get(*to) {
                    set.union_with(node);
                }
            }
            Arc::new(set)
        };
        Level {
            name: if index == 0 { "NODE" } else { "NUMA" },
            flags: if index == 0 { Flags::NONE } else { Flags::NUMA },
            overlap: index > 0,
            distance: *distance,
            of: of.clone(),
            sets: (0..nodes.len()).map(within).collect(),
        }
    };
    distances.iter().enumerate().map(level).collect()
}
