//! Finding: a task that has a lock and does not go on, while others wait for it.
//!
//! Relies on the waiters and owners of locks (`waits`), and on `task_struct.se.exec_start` for
//! the time since a task ran.

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::{LONG_NSEC, longest};
use crate::error::InspectError;
use crate::waits::{Holds, Root, WaitKind, Waits};

/// Kind.
pub const KIND: &str = "lock-held";

/// A finding for each task that others wait for.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let waits = evidence.waits()?;
    let roots = waits.roots.iter();
    Ok(roots
        .filter_map(|root| finding(evidence, waits, root))
        .collect())
}

fn finding(evidence: &Evidence, all: &Waits, root: &Root) -> Option<Finding> {
    let task = root.task.as_ref()?;
    let waits = || root.waits.iter().filter_map(|index| all.waits.get(*index));
    let first = waits().next()?;
    let on = first.on.as_ref()?;
    if on.kind == WaitKind::Work {
        return None;
    }
    let holds = on
        .holders
        .iter()
        .find(|holder| holder.address == task.address)?
        .holds;
    let longest = longest(waits());
    let sure = match holds {
        Holds::Owner | Holds::Worker => Sure::Certain,
        Holds::OnStack => Sure::Likely,
        Holds::LastReader => Sure::Possible,
    };
    let weight = match (longest >= LONG_NSEC, sure) {
        (true, Sure::Certain) => 80,
        (true, _) => 75,
        (false, _) => 30,
    };
    let does = match root.does.first() {
        Some(function) => format!(", in {function}"),
        None => String::new(),
    };
    let title = format!(
        "{task} has {on} and {}{does}; {} tasks wait behind it, up to {}",
        state(task.state),
        root.behind,
        seconds(longest)
    );
    let mut finding = Finding::new(KIND, weight, sure, title).because(holds.why());
    if let Some(state) = &on.state {
        finding = finding.because(format!("the lock is {state}"));
    }
    if let Some(since) = root.since_nsec {
        finding = finding.because(format!("it has not run for {}", seconds(since)));
    }
    if !root.does.is_empty() {
        finding = finding.because(format!("its stack: {}", root.does.join(" < ")));
    }
    Some(
        finding
            .task(task)
            .waiters(waits(), "waits for it")
            .place(evidence.program, on.kind.word(), on.address)
            .more("bigiron info --waits --stacks DUMP"),
    )
}

fn state(letter: char) -> &'static str {
    match letter {
        'R' => "runs or wants to",
        'D' => "sleeps (D)",
        'T' | 't' => "is stopped",
        _ => "sleeps",
    }
}
