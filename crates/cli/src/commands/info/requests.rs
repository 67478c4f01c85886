//! `bigiron info --requests`.

use bigiron_helpers::Stop;
use bigiron_inspect::block_io::Request;
use bigiron_inspect::{BlockQueue, Program};

use super::page::Page;
use super::topic::{Topic, seconds};

/// Name of the topic in JSON.
pub const NAME: &str = "requests";
/// Requests of a device in text output; JSON has all.
const SHOWN: usize = 16;

/// Finds the block devices.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    let found = BlockQueue::all(program, &Stop::new());
    Topic::of(NAME, found, |found, page| show(found, page))
}

fn show(found: &[BlockQueue], page: &mut Page) {
    let flying: usize = found.iter().map(|queue| queue.in_flight.len()).sum();
    let heading = format!(
        "block devices: {}, requests in flight: {flying}",
        found.len()
    );
    let rows: Vec<Vec<String>> = found.iter().flat_map(rows).collect();
    let columns = [
        "device",
        "seconds",
        "operation",
        "bytes",
        "sector",
        "request",
    ];
    page.table(&heading, &columns, &[1, 3, 4], &rows);
    let stacks: Vec<Vec<String>> = found.iter().filter_map(stack).collect();
    let columns = ["device", "on", "name", "targets", "state"];
    page.table("devices on others", &columns, &[], &stacks);
}

/// What a device lies on, and what the device mapper has of it; `None` for other devices.
fn stack(queue: &BlockQueue) -> Option<Vec<String>> {
    let mapping = queue.mapping.as_ref();
    if queue.below.is_empty() && mapping.is_none() {
        return None;
    }
    let mut state = Vec::new();
    if let Some(mapping) = mapping.filter(|mapping| mapping.suspended) {
        state.push(format!("suspended, {} bios wait", mapping.deferred));
    }
    if let Some(paths) = mapping.and_then(|mapping| mapping.paths.as_ref()) {
        state.push(format!(
            "{} of {} paths work",
            paths.working,
            paths.paths.len()
        ));
    }
    let name = mapping.and_then(|mapping| mapping.name.clone());
    let targets = mapping.map(|mapping| mapping.targets.join(", "));
    Some(vec![
        queue.disk.clone(),
        queue.below.join(", "),
        name.unwrap_or_default(),
        targets.unwrap_or_default(),
        state.join(", "),
    ])
}

fn rows(queue: &BlockQueue) -> Vec<Vec<String>> {
    if queue.in_flight.is_empty() {
        return vec![vec![queue.disk.clone(), String::new(), "none".into()]];
    }
    let mut rows: Vec<Vec<String>> = queue
        .in_flight
        .iter()
        .take(SHOWN)
        .map(|request| row(&queue.disk, request))
        .collect();
    let more = queue.in_flight.len().saturating_sub(SHOWN);
    if more > 0 {
        rows.push(vec![
            queue.disk.clone(),
            String::new(),
            format!("{more} more"),
        ]);
    }
    rows
}

fn row(disk: &str, request: &Request) -> Vec<String> {
    vec![
        disk.to_owned(),
        request.age_nsec.map(seconds).unwrap_or_default(),
        request.operation.clone(),
        request.bytes.to_string(),
        request.sector.to_string(),
        request.address.to_string(),
    ]
}
