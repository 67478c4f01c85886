//! Consistency of levels: the kernel's check of its masks, in its old and its linear form, and
//! the check that each level contains the one below.

use fixedbitset::FixedBitSet;

use super::{Level, Rules, levels, mask_of};
use crate::list::CpuList;
use crate::topology::Topology;

/// Inconsistency of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InconsistentLevel {
    /// The sets of two CPUs partially overlap: the kernel builds no domains
    /// (topology_span_sane).
    Overlaps {
        /// Name of the level.
        level: &'static str,
    },
    /// A set lacks CPUs of the set below it. The kernel reports "arch topology borken" and adds
    /// them (build_sched_domain).
    Lacks {
        /// Name of the level.
        level: &'static str,
        /// Name of the level below.
        below: &'static str,
        /// First CPU whose set lacks CPUs.
        cpu: usize,
    },
}

impl std::fmt::Display for InconsistentLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Overlaps { level } => {
                write!(
                    f,
                    "level {level}: sets of CPUs partially overlap; a kernel builds no domains"
                )
            }
            Self::Lacks { level, below, cpu } => write!(
                f,
                "level {level} of CPU {cpu} lacks CPUs of level {below}, the one below; a kernel adds them"
            ),
        }
    }
}

/// Returns the inconsistencies of a machine's levels; a real machine has none.
pub fn insane(topology: &Topology, online: &CpuList, rules: &Rules) -> Vec<InconsistentLevel> {
    let map = mask_of(topology, online);
    let levels = levels::levels(topology, &map, rules);
    let is_sane = |level: &Level| {
        let mask = |cpu| Some((cpu, level.mask(cpu)?.as_ref()));
        once_is_sane(&map.ones().filter_map(mask).collect::<Vec<_>>())
    };
    let mut found: Vec<InconsistentLevel> = levels
        .iter()
        .filter(|level| !level.overlap && !is_sane(level))
        .map(|level| InconsistentLevel::Overlaps { level: level.name })
        .collect();
    for (below, level) in levels.iter().zip(levels.iter().skip(1)) {
        let lacks = |cpu: &usize| match (below.mask(*cpu), level.mask(*cpu)) {
            (Some(below), Some(mask)) => !below.is_subset(mask),
            _ => false,
        };
        found.extend(map.ones().find(lacks).map(|cpu| InconsistentLevel::Lacks {
            level: level.name,
            below: below.name,
            cpu,
        }));
    }
    found
}

/// Returns true if the sets of any two CPUs are equal or disjoint, by comparing all pairs
/// (ccf74128d66c).
pub fn pairs_are_sane(masks: &[(usize, &FixedBitSet)]) -> bool {
    masks.iter().all(|(cpu, mask)| {
        let others = masks.iter().filter(|(other, _)| other != cpu);
        let mut masks = others.map(|(_, other)| other);
        masks.all(|other| mask == other || mask.is_disjoint(other))
    })
}

/// Returns the same as [`pairs_are_sane`] with one visit per CPU (ce29a7da84cd). The lowest CPU
/// identifies a set: a set must equal the earlier set with the same lowest CPU, or be disjoint
/// from all earlier sets.
pub fn once_is_sane(masks: &[(usize, &FixedBitSet)]) -> bool {
    let size = masks.iter().map(|(_, mask)| mask.len()).max().unwrap_or(0);
    let mut covered = FixedBitSet::with_capacity(size);
    let mut named: std::collections::HashMap<usize, &FixedBitSet> =
        std::collections::HashMap::new();
    masks.iter().all(|(_, mask)| {
        let Some(id) = mask.minimum() else {
            return true;
        };
        if let Some(before) = named.get(&id) {
            return before == mask;
        }
        let new = mask.is_disjoint(&covered);
        covered.union_with(mask);
        named.insert(id, mask);
        new
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sets: &[&[usize]]) -> [bool; 2] {
        let set = |cpus: &&[usize]| {
            let mut set = FixedBitSet::with_capacity(8);
            set.extend(cpus.iter().copied());
            set
        };
        let sets: Vec<FixedBitSet> = sets.iter().map(set).collect();
        let masks: Vec<_> = sets.iter().enumerate().collect();
        [pairs_are_sane(&masks), once_is_sane(&masks)]
    }

    #[test]
    fn sane_sets_are_equal_or_disjoint() {
        let sane = check(&[&[0, 1], &[0, 1], &[2, 3], &[2, 3]]);
        assert_eq!(sane, [true; 2]);
        // The machine of ccf74128d66c: 0-2 and 1-3.
        let overlap = check(&[&[0, 1, 2], &[0, 1, 2], &[1, 2, 3], &[1, 2, 3]]);
        assert_eq!(overlap, [false; 2]);
    }

    #[test]
    fn level_that_lacks_cpus_of_the_level_below_is_reported() {
        let rules = Rules::LINUX_6_12;
        let mut machine = Topology::from_text("sockets=2 cores=2 threads=2").unwrap();
        let all: CpuList = "0-7".parse().unwrap();
        assert_eq!(insane(&machine, &all, &rules), []);
        // Caches of single threads, in cores of two threads.
        machine.caches = Topology::from_text("cores=8").unwrap().cores;
        let found = insane(&machine, &all, &rules);
        assert_eq!(
            found,
            [InconsistentLevel::Lacks {
                level: "MC",
                below: "CLS",
                cpu: 0
            }]
        );
        assert!(found[0].to_string().contains("level MC of CPU 0"));
    }
}
