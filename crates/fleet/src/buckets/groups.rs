//! Groups of things that share a key, directly or by others.

use std::collections::HashMap;

/// Returns the groups, in order of their first member, as indices of `things`; each thing is
/// given by its keys.
pub fn join(things: impl Iterator<Item = Vec<String>>) -> Vec<Vec<usize>> {
    let mut parents: Vec<usize> = Vec::new();
    let mut by_key: HashMap<String, usize> = HashMap::new();
    for (index, keys) in things.enumerate() {
        parents.push(index);
        for key in keys {
            let other = *by_key.entry(key).or_insert(index);
            let (a, b) = (root(&mut parents, index), root(&mut parents, other));
            parents[a.max(b)] = a.min(b);
        }
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut group_of = HashMap::new();
    for index in 0..parents.len() {
        let group = *group_of
            .entry(root(&mut parents, index))
            .or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
        groups[group].push(index);
    }
    groups
}

/// The first member of a group, to which the path is shortened.
fn root(parents: &mut [usize], mut index: usize) -> usize {
    while parents[index] != index {
        parents[index] = parents[parents[index]];
        index = parents[index];
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_joined_by_others() {
        let things = ["ab", "c", "d", "cb", "de"];
        let keys = things.map(|keys| keys.chars().map(String::from).collect());
        assert_eq!(join(keys.into_iter()), [vec![0, 1, 3], vec![2, 4]]);
    }
}
