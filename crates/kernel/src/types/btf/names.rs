//! Types by name. A walk through a dump asks for names again and again, also for those that do
//! not exist, so a lookup must not search the whole table.

use std::hash::{BuildHasher, RandomState};

use super::{Btf, Head, kind};
use crate::types::{Named, TypeId};

/// The namespaces of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// Types of data.
    Type(Named),
    /// Variables.
    Variable,
    /// Functions.
    Function,
}

impl Group {
    fn of(head: &Head) -> Option<Self> {
        Some(match head.kind {
            kind::STRUCT => Self::Type(Named::Struct),
            kind::UNION => Self::Type(Named::Union),
            kind::ENUM | kind::ENUM64 => Self::Type(Named::Enumeration),
            kind::TYPEDEF => Self::Type(Named::Typedef),
            kind::INT | kind::FLOAT => Self::Type(Named::Base),
            kind::VAR => Self::Variable,
            kind::FUNC => Self::Function,
            _ => return None,
        })
    }
}

/// Hashes of groups and names, sorted, with the positions of their types in the table. The key
/// of the hash is random, so that no table can make all hashes equal.
#[derive(Debug)]
pub(super) struct NameIndex {
    hasher: RandomState,
    sorted: Vec<(u32, u32)>,
}

impl NameIndex {
    fn of(table: &Btf) -> Self {
        let hasher = RandomState::new();
        let entry = |(position, start): (usize, &u32)| {
            let head = table.head_at(*start as usize).ok()?;
            let hash = hash(&hasher, Group::of(&head)?, table.name(head.name)?);
            Some((hash, u32::try_from(position).ok()?))
        };
        let starts = table.starts.iter().enumerate();
        // The first of a table without a base is `void`, which has no head.
        let starts = starts.skip(usize::from(table.base.is_none()));
        let mut sorted: Vec<_> = starts.filter_map(entry).collect();
        sorted.sort_unstable();
        Self { hasher, sorted }
    }
}

fn hash(hasher: &RandomState, group: Group, name: &str) -> u32 {
    hasher.hash_one((group, name)) as u32
}

impl Btf {
    /// Finds the first own type of the group with this name.
    pub(super) fn named(&self, group: Group, name: &str) -> Option<(TypeId, Head)> {
        let index = self.by_name.get_or_init(|| NameIndex::of(self));
        let wanted = hash(&index.hasher, group, name);
        let first = index.sorted.partition_point(|(hash, _)| *hash < wanted);
        let equal = index.sorted.get(first..)?.iter();
        let mut equal = equal.take_while(|(hash, _)| *hash == wanted);
        equal.find_map(|(_, position)| {
            let start = *self.starts.get(*position as usize)?;
            let head = self.head_at(start as usize).ok()?;
            let fits = Group::of(&head) == Some(group) && self.name(head.name) == Some(name);
            fits.then(|| (TypeId(self.first() + u64::from(*position)), head))
        })
    }
}
