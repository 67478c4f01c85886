//! Types by name. A walk through a dump asks for names again and again, also for those that do
//! not exist, so a lookup must not search the whole table.

use std::hash::{BuildHasher, RandomState};

use crate::types::Named;

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

/// Hashes of groups and names, sorted, with the positions of their types in the table. The key
/// of the hash is random, so that no table can be crafted in which all hashes are equal.
#[derive(Debug)]
pub(super) struct NameIndex {
    hasher: RandomState,
    sorted: Vec<(u32, u32)>,
}

impl NameIndex {
    /// Builds the index of names and positions.
    pub(super) fn new<'n>(names: impl Iterator<Item = (Group, &'n str, u32)>) -> Self {
        let hasher = RandomState::new();
        let entries = names.map(|(group, name, position)| (hash(&hasher, group, name), position));
        let mut sorted: Vec<_> = entries.collect();
        sorted.sort_unstable();
        Self { hasher, sorted }
    }

    /// Returns the positions, in order, of types that may have the name: nearly always those
    /// that have it.
    pub(super) fn candidates(&self, group: Group, name: &str) -> impl Iterator<Item = u32> {
        let wanted = hash(&self.hasher, group, name);
        let first = self.sorted.partition_point(|(hash, _)| *hash < wanted);
        let equal = self.sorted.get(first..).unwrap_or_default().iter();
        let equal = equal.take_while(move |(hash, _)| *hash == wanted);
        equal.map(|(_, position)| *position)
    }
}

fn hash(hasher: &RandomState, group: Group, name: &str) -> u32 {
    hasher.hash_one((group, name)) as u32
}
