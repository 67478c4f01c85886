//! Finding: a multipath device without a path that works, and the tasks that wait for one.
//!
//! Relies on the paths of the device (`block_paths`), on the requests in flight (`block_io`), and
//! on the tasks that wait (`waits`).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::longest;
use crate::block_io::BlockQueue;
use crate::block_paths::Paths;
use crate::error::InspectError;
use crate::waits::Wait;

/// Kind.
pub const KIND: &str = "multipath";

/// A finding for each such device.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let mut findings = Vec::new();
    for queue in evidence.block_queues()? {
        let paths = queue
            .mapping
            .as_ref()
            .and_then(|mapping| mapping.paths.as_ref());
        if let Some(paths) = paths.filter(|paths| paths.working == 0) {
            findings.push(finding(evidence, queue, paths)?);
        }
    }
    Ok(findings)
}

fn finding(
    evidence: &Evidence,
    queue: &BlockQueue,
    paths: &Paths,
) -> Result<Finding, InspectError> {
    let waits_here = |wait: &&Wait| wait.device() == Some(&queue.disk);
    let waits = &evidence.waits()?.waits;
    let waiting: Vec<&Wait> = waits.iter().filter(waits_here).collect();
    let name = queue
        .mapping
        .as_ref()
        .and_then(|mapping| mapping.name.as_deref());
    let title = format!(
        "the multipath device {} ({}) has no path that works, of {}; {} tasks wait for it, up to {}",
        name.unwrap_or("without a name"),
        queue.disk,
        paths.paths.len(),
        waiting.len(),
        seconds(longest(waiting.iter().copied()))
    );
    let weight = match waiting.is_empty() && queue.in_flight.is_empty() {
        true => 45,
        false => 86,
    };
    let does = match paths.waits {
        true => "requests wait for one (queue_if_no_path)",
        false => "requests fail",
    };
    let mut finding = Finding::new(KIND, weight, Sure::Certain, title)
        .because(format!("its nr_valid_paths is 0; {does}"));
    for path in &paths.paths {
        finding = finding.because(format!(
            "the path {} failed {} times",
            path.device, path.failed
        ));
    }
    Ok(finding
        .waiters(waiting, "waits")
        .place(evidence.program, "struct multipath", paths.address)
        .place(evidence.program, "request_queue", queue.queue)
        .more("bigiron info --requests --waits --stacks DUMP"))
}
