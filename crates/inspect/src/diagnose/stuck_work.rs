//! Finding: a work item that does not end, with others behind it or a task that waits for it.
//!
//! Relies on struct worker (`current_work`, `current_func`, `current_pwq`), on struct
//! pool_workqueue (`inactive_works`, before 5.15 `delayed_works`) and on struct wq_barrier
//! (kernel/workqueue.c).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::{LONG_NSEC, longest};
use crate::error::InspectError;
use crate::waits::{Wait, WaitKind, Worker};

/// Kind.
pub const KIND: &str = "stuck-work";

/// A finding for each worker that others wait for.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let waits = evidence.waits()?;
    let in_cycle = |worker: &Worker| {
        let mut indices = waits.cycles.iter().flat_map(|cycle| &cycle.waits);
        let wait = |index: &usize| waits.waits.get(*index);
        indices
            .any(|index| wait(index).is_some_and(|wait| wait.task.address == worker.task.address))
    };
    let workers = waits.workers.iter().filter(|worker| !in_cycle(worker));
    Ok(workers
        .filter_map(|worker| {
            let for_it = waits.waits.iter().filter(|wait| waits_for(wait, worker));
            finding(evidence, worker, &for_it.collect::<Vec<_>>())
        })
        .collect())
}

fn waits_for(wait: &Wait, worker: &Worker) -> bool {
    let on = wait.on.as_ref().filter(|on| on.kind == WaitKind::Work);
    on.is_some_and(|on| {
        on.holders
            .iter()
            .any(|holder| holder.address == worker.task.address)
    })
}

fn finding(evidence: &Evidence, worker: &Worker, waits: &[&Wait]) -> Option<Finding> {
    if waits.is_empty() && worker.behind == 0 {
        return None;
    }
    let of_worker = evidence.waits().ok()?.waits.iter();
    let own: Vec<&Wait> = of_worker
        .filter(|wait| wait.task.address == worker.task.address)
        .collect();
    // Without a waiter, the worker's own sleep tells the time.
    let longest = longest(waits.iter().chain(&own).copied());
    let function = worker.function.as_deref().unwrap_or("an unknown function");
    let queue = worker.queue.as_deref().unwrap_or("unknown");
    let weight = if longest >= LONG_NSEC { 82 } else { 20 };
    let title = format!(
        "the work item {function} of the work queue {queue} does not end ({}); {} items wait \
         behind it and {} tasks for it, up to {}",
        worker.task,
        worker.behind,
        waits.len(),
        seconds(longest)
    );
    let mut finding = Finding::new(KIND, weight, Sure::Certain, title)
        .because(format!("its worker {} executes it", worker.task));
    for wait in &own {
        let at = wait.place();
        finding = finding.because(match &wait.on {
            Some(on) => format!("the worker waits in {at} for {on}"),
            None => format!("the worker waits in {at}"),
        });
    }
    Some(
        finding
            .task(&worker.task)
            .waiters(waits.iter().copied(), "waits for it")
            .place(evidence.program, "work item", worker.item)
            .place(evidence.program, "struct worker", worker.address)
            .more("bigiron info --waits --stacks DUMP"),
    )
}
