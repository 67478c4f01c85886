//! How the CPUs of a machine lie together: threads in cores, cores in clusters and under
//! caches, those in packages, and memory nodes with distances between them.

mod sysfs;
mod text;

use fixedbitset::FixedBitSet;

pub use text::TopologyTextError;

/// A distance from a node to itself (LOCAL_DISTANCE, include/linux/topology.h).
pub const LOCAL_DISTANCE: u32 = 10;

/// The most CPUs of a described machine: twice what NR_CPUS of x86 allows. Sets of them, one for each core,
/// grow with the square.
pub const MAX_CPUS: usize = 1 << 14;

/// The most nodes: MAX_NUMNODES, by CONFIG_NODES_SHIFT of at most 10.
pub const MAX_NODES: usize = 1 << 10;

/// CPUs by kinds of nearness. Each kind parts all CPUs into sets: what cannot be told
/// apart is in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// CPUs of a core: hardware threads.
    pub cores: Partition,
    /// Cores that share a cache below the last (`cluster_cpus`).
    pub clusters: Partition,
    /// CPUs under the same last-level cache.
    pub caches: Partition,
    /// CPUs of a package.
    pub packages: Partition,
    /// CPUs of a memory node, by the node's place in [`Topology::distances`].
    pub nodes: Partition,
    /// From each node to each, as firmware tells it.
    pub distances: Vec<Vec<u32>>,
}

impl Topology {
    /// CPUs that the machine has.
    pub fn cpu_count(&self) -> usize {
        self.cores.of.len()
    }
}

/// CPUs parted into sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The number of its set, for each CPU.
    of: Vec<u32>,
    /// The CPUs of each set.
    sets: Vec<FixedBitSet>,
}

impl Partition {
    /// By the number of its set for each CPU. Numbers must be below `sets`.
    fn new(of: Vec<u32>, sets: usize) -> Self {
        let mut members = vec![FixedBitSet::with_capacity(of.len()); sets];
        for (cpu, set) in of.iter().enumerate() {
            if let Some(set) = members.get_mut(*set as usize) {
                set.insert(cpu);
            }
        }
        Self { of, sets: members }
    }

    /// By anything that is equal for CPUs of one set; sets are numbered as they come.
    fn by_key<K: Eq + std::hash::Hash>(keys: impl IntoIterator<Item = K>) -> Self {
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

    /// The number of the set of a CPU; 0 for a CPU that there is not.
    pub fn set_of(&self, cpu: usize) -> usize {
        self.of.get(cpu).map_or(0, |set| *set as usize)
    }

    /// The CPUs of a set.
    pub fn members(&self, set: usize) -> Option<&FixedBitSet> {
        self.sets.get(set)
    }

    /// How many sets there are.
    pub fn count(&self) -> usize {
        self.sets.len()
    }
}
