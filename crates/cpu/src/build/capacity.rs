//! CPUs of different capacity: big and little cores (asym_cpu_capacity_classify,
//! kernel/sched/topology.c).

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::flags::Flags;
use crate::topology::Topology;

/// CPUs of each capacity; empty if all CPUs with domains have the same.
#[derive(Debug, Default)]
pub(super) struct Capacities(Vec<FixedBitSet>);

impl Capacities {
    /// Finds the capacities of the CPUs in `map` (asym_cpu_capacity_scan).
    pub(super) fn new(topology: &Topology, map: &FixedBitSet) -> Self {
        let mut sets: BTreeMap<u32, FixedBitSet> = BTreeMap::new();
        for (cpu, capacity) in topology.capacities.iter().enumerate() {
            if map.contains(cpu) {
                sets.entry(*capacity)
                    .or_insert_with(|| FixedBitSet::with_capacity(map.len()))
                    .insert(cpu);
            }
        }
        match sets.len() {
            0 | 1 => Self::default(),
            _ => Self(sets.into_values().collect()),
        }
    }

    /// Returns the flags of a domain with this span.
    pub(super) fn flags(&self, span: &FixedBitSet) -> Flags {
        let inside = self.0.iter().filter(|cpus| !cpus.is_disjoint(span));
        match inside.count() {
            0 | 1 => Flags::NONE,
            all if all == self.0.len() => Flags::ASYM_CPUCAPACITY | Flags::ASYM_CPUCAPACITY_FULL,
            _ => Flags::ASYM_CPUCAPACITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::build::{Architecture, Rules, build};
    use crate::topology::Topology;

    #[test]
    fn domain_of_big_and_little_cores_does_not_spread_below_it() {
        let text = "cores=8 caches=2 capacities=4*1024,4*446";
        let machine = Topology::from_text(text).unwrap();
        let rules = Rules::LINUX_6_12.on(Architecture::Generic);
        let chain = &build(&machine, &"0-7".parse().unwrap(), &rules)[5];
        let flags = |number: usize, name: &str| {
            let flags = chain[number].flags.as_ref().unwrap();
            flags.iter().any(|flag| flag == name)
        };
        assert_eq!(chain[0].span.as_ref().unwrap().to_string(), "4-7");
        assert!(!flags(0, "SD_ASYM_CPUCAPACITY") && !flags(0, "SD_PREFER_SIBLING"));
        assert!(flags(1, "SD_ASYM_CPUCAPACITY") && flags(1, "SD_ASYM_CPUCAPACITY_FULL"));
        // Only big cores are online.
        let chain = &build(&machine, &"0-3".parse().unwrap(), &rules)[0];
        let flags = chain[0].flags.clone().unwrap().join(" ");
        assert!(!flags.contains("ASYM") && flags.contains("SD_PREFER_SIBLING"));
    }

    #[test]
    fn domain_with_some_of_three_capacities_is_not_full() {
        let text = "cores=6 caches=3 capacities=2*1024,2*700,2*300 sockets=1";
        let mut machine = Topology::from_text(text).unwrap();
        machine.caches = Topology::from_text("cores=6 caches=3").unwrap().caches;
        machine.clusters = machine.caches.clone();
        let pair: Vec<u32> = vec![1024, 700, 1024, 700, 300, 300];
        machine.capacities = pair;
        let rules = Rules::LINUX_6_12.on(Architecture::Generic);
        let chain = &build(&machine, &"0-5".parse().unwrap(), &rules)[0];
        let flags = |number: usize| chain[number].flags.clone().unwrap().join(" ");
        assert!(flags(0).contains("SD_ASYM_CPUCAPACITY") && !flags(0).contains("FULL"));
        assert!(flags(1).contains("SD_ASYM_CPUCAPACITY_FULL"));
    }
}
