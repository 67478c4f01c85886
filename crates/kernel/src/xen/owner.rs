//! Owners of page frames.

use std::fmt;

/// The owner of a page frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The hypervisor: its image, its heap, and memory such as the first 640 KiB that it keeps
    /// for itself (dom_xen and dom_io).
    Hypervisor,
    /// The privileged domain.
    Dom0,
    /// Another domain.
    Domain(u16),
    /// Nobody: the hypervisor's free memory.
    Free,
    /// Nobody: taken out of use.
    Offlined,
    /// Nobody: broken memory, which must not be read.
    Broken,
    /// Not known: the frame table does not describe it, or names an owner that is not in the
    /// list of domains.
    Unknown,
}

/// The owners whose page frames a dump keeps. Those with unknown owner are always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owners {
    /// The hypervisor.
    pub hypervisor: bool,
    /// Dom0.
    pub dom0: bool,
    /// All other domains, and memory without owner.
    pub others: bool,
}

impl Owners {
    /// Everything.
    pub const ALL: Self = Self {
        hypervisor: true,
        dom0: true,
        others: true,
    };
    /// What makedumpfile's -X keeps.
    pub const WITHOUT_GUESTS: Self = Self {
        others: false,
        ..Self::ALL
    };

    /// Returns true if a dump has the page frames of `owner`.
    pub(crate) fn keeps(self, owner: Owner) -> bool {
        match owner {
            Owner::Hypervisor => self.hypervisor,
            Owner::Dom0 => self.dom0,
            Owner::Domain(_) | Owner::Free | Owner::Offlined => self.others,
            Owner::Broken => false,
            Owner::Unknown => true,
        }
    }
}

impl Default for Owners {
    fn default() -> Self {
        Self::ALL
    }
}

/// Page frames of RAM by owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// The owners, in order, and the number of page frames of each.
    pub owners: Vec<(Owner, u64)>,
    /// Entries of the frame table that cannot be read.
    pub unreadable: u64,
}

impl Census {
    /// Returns the number of page frames of `owner`.
    pub fn of(&self, owner: Owner) -> u64 {
        let found = self.owners.iter().find(|(other, _)| *other == owner);
        found.map_or(0, |(_, count)| *count)
    }

    pub(super) fn add(&mut self, owner: Owner, count: u64) {
        if count == 0 {
            return;
        }
        match self
            .owners
            .binary_search_by_key(&owner, |(other, _)| *other)
        {
            Ok(at) => self.owners[at].1 += count,
            Err(at) => self.owners.insert(at, (owner, count)),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hypervisor => "hypervisor",
            Self::Dom0 => "dom0",
            Self::Domain(id) => return write!(f, "domain {id}"),
            Self::Free => "free",
            Self::Offlined => "offlined",
            Self::Broken => "broken",
            Self::Unknown => "unknown",
        })
    }
}
