//! Finding: tasks that wait for each other, so that none of them goes on.
//!
//! Relies on the waiters of locks (`waits`) and on the owners of struct mutex (`owner`), struct
//! rw_semaphore (`count`, `owner`), struct rt_mutex_base (`owner`), and on struct worker
//! (`current_work`, `scheduled`) for work items.

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use super::waiting::{LONG_NSEC, longest};
use crate::error::InspectError;
use crate::waits::{Cycle, Wait};

/// Kind.
pub const KIND: &str = "deadlock";

/// A finding for each cycle.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let waits = evidence.waits()?;
    let cycles = waits.cycles.iter();
    Ok(cycles
        .map(|cycle| finding(evidence, &waits.waits, cycle))
        .collect())
}

fn finding(evidence: &Evidence, waits: &[Wait], cycle: &Cycle) -> Finding {
    let waits = || cycle.waits.iter().filter_map(|index| waits.get(*index));
    let names: Vec<String> = waits().map(|wait| wait.task.to_string()).collect();
    let title = match names.as_slice() {
        [one] => format!("{one} waits for itself"),
        _ => format!("{} wait for each other", names.join(", ")),
    };
    // Of holders that are only likely, one may have released its lock since.
    let is_long = longest(waits()) >= LONG_NSEC;
    let (weight, sure) = match (cycle.certain, names.len()) {
        (true, 1) => (95, Sure::Likely),
        (true, _) => (100, Sure::Certain),
        (false, _) if is_long => (70, Sure::Possible),
        (false, _) => (40, Sure::Possible),
    };
    let mut finding = Finding::new(KIND, weight, sure, title);
    let tasks: Vec<_> = waits().map(|wait| wait.task.address).collect();
    for wait in waits() {
        let Some(on) = &wait.on else { continue };
        let at = wait.place();
        for holder in on
            .holders
            .iter()
            .filter(|holder| tasks.contains(&holder.address))
        {
            let name = holder.task.as_ref().map(ToString::to_string);
            finding = finding.because(format!(
                "{} waits in {at} for {on}, which {} has: {}",
                wait.task,
                name.unwrap_or_default(),
                holder.holds.why()
            ));
        }
        finding = finding
            .task(&wait.task)
            .place(evidence.program, on.kind.word(), on.address);
    }
    if names.len() == 1 {
        finding = finding.because(
            "it took the lock twice, or it was made where the task_struct of an owner was that \
             ended without releasing it",
        );
    }
    if cycle.behind > 0 {
        finding = finding.because(format!("{} other tasks wait behind them", cycle.behind));
    }
    finding.more("bigiron info --waits --stacks DUMP")
}
