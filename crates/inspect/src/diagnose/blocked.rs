//! Finding: tasks that wait for long in state D, and nothing says who lets them go on.
//!
//! Relies on the states of tasks, on `task_struct.se.exec_start` for the time, and on the
//! waiters of semaphores, completions and wait queues (`waits`).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::{LONG_NSEC, longest};
use crate::error::InspectError;
use crate::waits::Wait;

/// Kind.
pub const KIND: &str = "blocked";

/// A finding for each thing, or function, that such tasks wait for or in.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let waits = evidence.waits()?;
    // A holder is reported by findings of its own, and so is what it waits for.
    let is_held = |wait: &Wait| wait.on.as_ref().is_some_and(|on| !on.holders.is_empty());
    let is_long = |wait: &Wait| wait.since_nsec.is_some_and(|since| since >= LONG_NSEC);
    let has_others_behind = |wait: &Wait| {
        let roots = waits.roots.iter().filter_map(|root| root.task.as_ref());
        roots
            .into_iter()
            .any(|task| task.address == wait.task.address)
    };
    let mut groups: Vec<(String, Vec<&Wait>)> = Vec::new();
    for wait in &waits.waits {
        if !wait.uninterruptible || !is_long(wait) || is_held(wait) || has_others_behind(wait) {
            continue;
        }
        let what = match (&wait.on, &wait.at) {
            (Some(on), _) => on.to_string(),
            (None, Some(at)) => format!("something in {at}"),
            (None, None) => "something unknown".to_owned(),
        };
        match groups.iter_mut().find(|(known, _)| *known == what) {
            Some((_, group)) => group.push(wait),
            None => groups.push((what, vec![wait])),
        }
    }
    Ok(groups
        .iter()
        .filter_map(|(what, group)| finding(evidence, what, group))
        .collect())
}

fn finding(evidence: &Evidence, what: &str, group: &[&Wait]) -> Option<Finding> {
    let first = group.first()?;
    let who = match group {
        [one] => format!("{} waits", one.task),
        _ => format!("{} and {} more tasks wait", first.task, group.len() - 1),
    };
    let time = seconds(longest(group.iter().copied()));
    let io = if first.io { ", as I/O does" } else { "" };
    let title = format!("{who} for {what} in state D, up to {time}{io}");
    // What is named is closer to the cause than a function that sleeps.
    let weight = if first.on.is_some() { 62 } else { 60 };
    let mut finding = Finding::new(KIND, weight, Sure::Likely, title);
    for wait in group {
        let at = wait.place();
        let since = wait.since_nsec.map(seconds).unwrap_or_default();
        finding = finding
            .because(format!("{} waits in {at} for {since}", wait.task))
            .task(&wait.task);
    }
    if let Some(on) = &first.on {
        finding = finding.place(evidence.program, on.kind.word(), on.address);
    }
    Some(finding.more("bigiron info --waits --stacks DUMP"))
}
