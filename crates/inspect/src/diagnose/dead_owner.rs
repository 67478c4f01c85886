//! Finding: a lock whose owner has ended, so that nobody will release it.
//!
//! Relies on the owners of struct mutex, struct rw_semaphore and struct rt_mutex_base, and on
//! the list of tasks.

use std::collections::HashMap;

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use crate::error::InspectError;
use crate::waits::{Holds, Wait};

/// Kind.
pub const KIND: &str = "dead-owner";

/// A finding for each such lock.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let waits = evidence.waits()?;
    // If tasks are missing, one that is not found need not have ended.
    let sure = match waits
        .gaps
        .iter()
        .any(|gap| gap.contains("list of processes"))
    {
        true => Sure::Possible,
        false => Sure::Certain,
    };
    let mut locks: HashMap<_, Vec<&Wait>> = HashMap::new();
    for wait in &waits.waits {
        let Some(on) = &wait.on else { continue };
        let is_dead =
            |holder: &crate::waits::Holder| holder.task.is_none() && holder.holds == Holds::Owner;
        if on.holders.iter().any(is_dead) {
            locks.entry(on.address).or_default().push(wait);
        }
    }
    let mut findings: Vec<Finding> = locks
        .values()
        .filter_map(|waits| finding(evidence, waits, sure))
        .collect();
    findings.sort_by(|a, b| a.title.cmp(&b.title));
    Ok(findings)
}

fn finding(evidence: &Evidence, waits: &[&Wait], sure: Sure) -> Option<Finding> {
    let on = waits.first()?.on.as_ref()?;
    let owner = on.holders.first()?.address;
    let title = format!("the owner of {on} has ended without releasing it");
    let weight = if sure == Sure::Certain { 95 } else { 60 };
    let finding = Finding::new(KIND, weight, sure, title).because(format!(
        "it names the task at {owner} as its owner, which no task of the kernel is"
    ));
    Some(
        finding
            .waiters(waits.iter().copied(), "waits for it")
            .place(evidence.program, on.kind.word(), on.address)
            .place(evidence.program, "task_struct of the owner", owner)
            .more("bigiron info --waits DUMP"),
    )
}
