//! Tasks that wait, as evidence of a finding.

use super::finding::Finding;
use crate::waits::Wait;

/// Waiting for a lock or a work item that long is not usual, and such a time is one that people
/// notice.
pub const LONG_NSEC: u64 = 10_000_000_000;

/// The longest time that one of the tasks has waited.
pub fn longest<'w>(waits: impl Iterator<Item = &'w Wait>) -> u64 {
    waits.filter_map(|wait| wait.since_nsec).max().unwrap_or(0)
}

impl Finding {
    /// Adds tasks, and that each `does` so in the function where it waits.
    pub fn waiters<'w>(self, waits: impl IntoIterator<Item = &'w Wait>, does: &str) -> Self {
        waits.into_iter().fold(self, |finding, wait| {
            finding
                .because(format!("{} {does} in {}", wait.task, wait.place()))
                .task(&wait.task)
        })
    }
}
