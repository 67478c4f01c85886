//! docs/memory.md documents the policy keys as the parser defines them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use bigiron_memory::policy::{KEYS, Policy};

#[test]
fn documented_keys_equal_those_of_the_parser() {
    let text = include_str!("../../../docs/memory.md");
    let (_, table) = text
        .split_once("| key | values | default | meaning |")
        .unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), KEYS.len());
    for (row, key) in rows.iter().zip(&KEYS) {
        let name = format!("`{}`", key.name);
        assert_eq!(
            (row[0], row[1], row[3]),
            (name.as_str(), key.values, key.meaning)
        );
        let mut policy = Policy::default();
        policy.change(&format!("{}={}", key.name, row[2])).unwrap();
        assert_eq!(policy, Policy::default(), "the default of {name}");
    }
}
