//! Flags of a scheduler domain (include/linux/sched/sd_flags.h).

use std::ops::{BitOr, BitOrAssign};

/// A set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

/// Flag names by bit, in the kernel's order: the name since 6.10, and the earlier name if it
/// was different.
const NAMES: [(&str, Option<&str>); 16] = [
    ("SD_BALANCE_NEWIDLE", None),
    ("SD_BALANCE_EXEC", None),
    ("SD_BALANCE_FORK", None),
    ("SD_BALANCE_WAKE", None),
    ("SD_WAKE_AFFINE", None),
    ("SD_ASYM_CPUCAPACITY", None),
    ("SD_ASYM_CPUCAPACITY_FULL", None),
    ("SD_SHARE_CPUCAPACITY", None),
    ("SD_CLUSTER", None),
    ("SD_SHARE_LLC", Some("SD_SHARE_PKG_RESOURCES")),
    ("SD_SERIALIZE", None),
    ("SD_ASYM_PACKING", None),
    ("SD_PREFER_SIBLING", None),
    ("SD_OVERLAP", None),
    ("SD_NUMA", None),
    ("", None),
];

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Balance when about to go idle.
    pub const BALANCE_NEWIDLE: Self = Self(1);
    /// Balance at exec.
    pub const BALANCE_EXEC: Self = Self(1 << 1);
    /// Balance at fork.
    pub const BALANCE_FORK: Self = Self(1 << 2);
    /// Consider the waking CPU for the woken task.
    pub const WAKE_AFFINE: Self = Self(1 << 4);
    /// Members have different capacities.
    pub const ASYM_CPUCAPACITY: Self = Self(1 << 5);
    /// Members have all capacities of the machine.
    pub const ASYM_CPUCAPACITY_FULL: Self = Self(1 << 6);
    /// Members share the capacity of a core.
    pub const SHARE_CPUCAPACITY: Self = Self(1 << 7);
    /// Members share a cluster.
    pub const CLUSTER: Self = Self(1 << 8);
    /// Members share a last-level cache.
    pub const SHARE_LLC: Self = Self(1 << 9);
    /// Only one CPU balances at a time.
    pub const SERIALIZE: Self = Self(1 << 10);
    /// Fill lower-numbered CPUs first.
    pub const ASYM_PACKING: Self = Self(1 << 11);
    /// Prefer to place tasks in a sibling domain.
    pub const PREFER_SIBLING: Self = Self(1 << 12);
    /// Groups may overlap.
    pub const OVERLAP: Self = Self(1 << 13);
    /// Balance across memory nodes.
    pub const NUMA: Self = Self(1 << 14);
    /// Flags that matter only with at least two groups (SDF_NEEDS_GROUPS): all but WAKE_AFFINE.
    pub(super) const NEED_GROUPS: Self = Self(!Self::WAKE_AFFINE.0);

    /// Returns true if any flag of `other` is set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if no flag is set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Clears the flags of `other`.
    pub fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    /// Returns the flags that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns all flags that have a name, as bit values and names.
    pub fn known(new_names: bool) -> Vec<(u64, String)> {
        let bits = (0..u16::BITS).map(|bit| Self(1 << bit));
        let named = bits.zip(NAMES).filter(|(_, (name, _))| !name.is_empty());
        let names = |(flag, _): (Self, _)| {
            flag.names(new_names)
                .pop()
                .map(|name| (flag.0.into(), name))
        };
        named.filter_map(names).collect()
    }

    /// Returns the names in the kernel's order.
    pub fn names(self, new_names: bool) -> Vec<String> {
        let set = NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 & (1 << bit) != 0);
        let name = |(_, (new, old)): (usize, &(&'static str, Option<&'static str>))| match old {
            Some(old) if !new_names => (*old).to_owned(),
            _ => (*new).to_owned(),
        };
        set.map(name).collect()
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
