//! Finding: I/O requests that a device has not answered for long.
//!
//! Relies on the requests in flight of block devices (`block_io`).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::longest;
use crate::block_io::{BlockQueue, Request};
use crate::error::InspectError;
use crate::waits::Wait;

/// Kind.
pub const KIND: &str = "io";
/// A disk answers in milliseconds; one that retries, in seconds.
const LONG_NSEC: u64 = 10_000_000_000;

/// A finding for each queue.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let waits = &evidence.waits()?.waits;
    let waiting: Vec<&Wait> = waits.iter().filter(|wait| wait.io).collect();
    let old = evidence.block_queues()?.iter().filter_map(|queue| {
        let oldest = queue.in_flight.first()?;
        let age = oldest.age_nsec.filter(|age| *age >= LONG_NSEC)?;
        Some(finding(evidence, queue, oldest, age, &waiting))
    });
    Ok(old.collect())
}

fn finding(
    evidence: &Evidence,
    queue: &BlockQueue,
    oldest: &Request,
    age: u64,
    waiting: &[&Wait],
) -> Finding {
    let program = evidence.program;
    let title = format!(
        "the device {} has not answered for {}: {} requests in flight; {} tasks wait for I/O, up to {}",
        queue.disk,
        seconds(age),
        queue.in_flight.len(),
        waiting.len(),
        seconds(longest(waiting.iter().copied()))
    );
    let finding = Finding::new(KIND, 83, Sure::Certain, title)
        .because(format!(
            "the oldest request was started {} ago",
            seconds(age)
        ))
        .because(format!(
            "it is a {} of {} bytes at sector {}",
            oldest.operation, oldest.bytes, oldest.sector
        ));
    finding
        .waiters(waiting.iter().copied(), "waits for I/O")
        .place(program, "request", oldest.address)
        .place(program, "request_queue", queue.queue)
        .more("bigiron info --requests --waits --stacks DUMP")
}
