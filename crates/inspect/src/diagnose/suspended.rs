//! Finding: a device of the device mapper that is suspended, and the tasks that wait until it is
//! resumed.
//!
//! Relies on the flags of devices and the bios that wait (`block_stack`), and on the tasks that
//! wait (`waits`).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::longest;
use crate::block_io::BlockQueue;
use crate::block_stack::Mapping;
use crate::error::InspectError;
use crate::waits::Wait;

/// Kind.
pub const KIND: &str = "suspended";

/// A finding for each suspended device.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let mut findings = Vec::new();
    for queue in evidence.block_queues()? {
        let mapping = queue.mapping.as_ref();
        if let Some(mapping) = mapping.filter(|mapping| mapping.suspended) {
            findings.push(finding(evidence, queue, mapping)?);
        }
    }
    Ok(findings)
}

fn finding(
    evidence: &Evidence,
    queue: &BlockQueue,
    mapping: &Mapping,
) -> Result<Finding, InspectError> {
    // For a part of it, or for the end of a bio of its own.
    let waits_here = |wait: &&Wait| {
        let on = wait.on.as_ref();
        wait.device() == Some(&queue.disk)
            || on.is_some_and(|on| mapping.private.contains(&on.address))
    };
    let waits = &evidence.waits()?.waits;
    let waiting: Vec<&Wait> = waits.iter().filter(waits_here).collect();
    let name = match &mapping.name {
        Some(name) => format!("{name} ({})", queue.disk),
        None => queue.disk.clone(),
    };
    let below = match queue.below.is_empty() {
        true => String::new(),
        false => format!(", which lies on {},", queue.below.join(", ")),
    };
    let title = format!(
        "the device {name} of the device mapper{below} is suspended; {} requests and {} tasks wait \
         until it is resumed, up to {}",
        mapping.deferred,
        waiting.len(),
        seconds(longest(waiting.iter().copied()))
    );
    let weight = match (waiting.is_empty(), mapping.deferred) {
        (false, _) => 84,
        (true, 1..) => 60,
        (true, 0) => 30,
    };
    Ok(Finding::new(KIND, weight, Sure::Certain, title)
        .because("the flags of its struct mapped_device say so (DMF_SUSPENDED)")
        .because(format!(
            "its table has targets: {}",
            mapping.targets.join(", ")
        ))
        .because(format!(
            "{} bios wait in it (mapped_device.deferred)",
            mapping.deferred
        ))
        .waiters(waiting, "waits")
        .place(evidence.program, "struct mapped_device", mapping.address)
        .place(evidence.program, "request_queue", queue.queue)
        .more("bigiron info --requests --waits --stacks DUMP"))
}
