//! Topology of a machine's CPUs: threads in cores, cores in clusters and under caches, those in
//! packages, and memory nodes with distances between them.

mod sysfs;
mod text;

use fixedbitset::FixedBitSet;

pub use text::TopologyTextError;

/// Distance from a node to itself (LOCAL_DISTANCE, include/linux/topology.h).
pub const LOCAL_DISTANCE: u32 = 10;

/// Maximum number of CPUs of a described machine: twice the maximum NR_CPUS of x86. The sets of
/// CPUs, one for each core, grow with the square.
pub const MAX_CPUS: usize = 1 << 14;

/// Maximum number of nodes: MAX_NUMNODES, since CONFIG_NODES_SHIFT is at most 10.
pub const MAX_NODES: usize = 1 << 10;

/// Maximum capacity of a CPU (SCHED_CAPACITY_SCALE, include/linux/sched.h).
pub const MAX_CAPACITY: u32 = 1024;

/// Partitions of the CPUs by proximity. Each divides all CPUs into sets; CPUs that it does not
/// distinguish are in one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// CPUs (hardware threads) of each core.
    pub cores: Partition,
    /// Cores that share a cache below the last level (`cluster_cpus`).
    pub clusters: Partition,
    /// CPUs under the same last-level cache.
    pub caches: Partition,
    /// False if nothing is known about caches, and `caches` are the cores.
    pub has_caches: bool,
    /// CPUs of each package.
    pub packages: Partition,
    /// CPUs of each memory node, numbered as in [`Topology::distances`].
    pub nodes: Partition,
    /// Distance from each node to each node, as reported by the firmware.
    pub distances: Vec<Vec<u32>>,
    /// Capacity of each CPU, at most 1024 (`cpu_capacity`); empty if all are equal.
    pub capacities: Vec<u32>,
}

impl Topology {
    /// Returns the number of CPUs.
    pub fn cpu_count(&self) -> usize {
        self.cores.of.len()
    }
}

/// Division of the CPUs into sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Set number of each CPU.
    of: Vec<u32>,
    /// CPUs of each set.
    sets: Vec<FixedBitSet>,
}

impl Partition {
    /// Creates a partition from the set number of each CPU. Numbers must be below `sets`.
    fn new(of: Vec<u32>, sets: usize) -> Self {
        let mut members = vec![FixedBitSet::with_capacity(of.len()); sets];
        for (cpu, set) in of.iter().enumerate() {
            if let Some(set) = members.get_mut(*set as usize) {
                set.insert(cpu);
            }
        }
        Self { of, sets: members }
    }

    /// Creates a partition from a key for each CPU, equal for the CPUs of one set. Sets are
    /// numbered in order of appearance.
    pub(crate) fn by_key<K: Eq + std::hash::Hash>(keys: impl IntoIterator<Item = K>) -> Self {
        let mut numbers = std::collections::HashMap::new();
        let of: Vec<u32> = keys
            .into_iter()
            .map(|key| {
                let next = numbers.len() as u32;
                *numbers.entry(key).or_insert(next)
            })
            .collect();
        Self::new(of, numbers.len())
    }

    /// Returns the set number of a CPU; 0 for a CPU that does not exist.
    pub fn set_of(&self, cpu: usize) -> usize {
        self.of.get(cpu).map_or(0, |set| *set as usize)
    }

    /// Returns the CPUs of a set.
    pub fn members(&self, set: usize) -> Option<&FixedBitSet> {
        self.sets.get(set)
    }

    /// Returns the number of sets.
    pub fn count(&self) -> usize {
        self.sets.len()
    }
}
