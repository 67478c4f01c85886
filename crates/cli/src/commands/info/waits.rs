//! `bigiron info --waits`.

use bigiron_helpers::Stop;
use bigiron_inspect::waits::{Awaited, Cycle, Holder, Root, Wait};
use bigiron_inspect::{Program, Waits};

use super::page::Page;
use super::topic::{Topic, seconds};

/// Name of the topic in JSON.
pub const NAME: &str = "waits";
/// Holders in text output; JSON has all.
const SHOWN_HOLDERS: usize = 3;

/// Finds all waits.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(NAME, Waits::of(program, &Stop::new()), show)
}

fn show(found: &Waits, page: &mut Page) {
    let rows: Vec<Vec<String>> = found.waits.iter().map(row).collect();
    let heading = format!("waits: {}", rows.len());
    let columns = [
        "PID",
        "name",
        "state",
        "seconds",
        "waits for",
        "held by",
        "at",
    ];
    page.table(&heading, &columns, &[0, 3], &rows);
    for cycle in &found.cycles {
        page.line("", &format!("deadlock: {}", of_cycle(found, cycle)));
    }
    for root in &found.roots {
        page.line("", &of_root(root));
    }
    for call in &found.calls {
        page.line("", &call.to_string());
    }
    for worker in &found.workers {
        let function = worker.function.as_deref().unwrap_or("unknown");
        let queue = worker.queue.as_deref().unwrap_or("unknown");
        let text = format!(
            "worker {}: {function} of the work queue {queue}, {} behind it",
            worker.task, worker.behind
        );
        page.line("", &text);
    }
    for gap in &found.gaps {
        page.line("", &format!("not known: {gap}"));
    }
}

fn row(wait: &Wait) -> Vec<String> {
    let io = if wait.io { " (I/O)" } else { "" };
    vec![
        wait.task.pid.to_string(),
        wait.task.name.clone(),
        format!("{}{io}", wait.task.state),
        wait.since_nsec.map(seconds).unwrap_or_default(),
        wait.on
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        wait.on.as_ref().map(held_by).unwrap_or_default(),
        wait.at.clone().unwrap_or_default(),
    ]
}

fn held_by(on: &Awaited) -> String {
    let holders = on.holders.iter().take(SHOWN_HOLDERS).map(of_holder);
    let mut parts: Vec<String> = holders.collect();
    let more = on.holders.len().saturating_sub(SHOWN_HOLDERS);
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    if parts.is_empty() {
        parts.extend(on.state.clone());
    }
    parts.join(", ")
}

fn of_holder(holder: &Holder) -> String {
    let name = match &holder.task {
        Some(task) => task.to_string(),
        None => format!("a task that has ended ({})", holder.address),
    };
    match holder.holds.is_certain() {
        true => name,
        false => format!("{name}?"),
    }
}

fn of_cycle(found: &Waits, cycle: &Cycle) -> String {
    let waits = cycle
        .waits
        .iter()
        .filter_map(|index| found.waits.get(*index));
    let names: Vec<String> = waits.map(|wait| wait.task.to_string()).collect();
    format!(
        "{} wait for each other; {} behind them",
        names.join(", "),
        cycle.behind
    )
}

fn of_root(root: &Root) -> String {
    let name = match &root.task {
        Some(task) => format!("{task}, {}", task.state),
        None => "a task that has ended".to_owned(),
    };
    let does = match root.does.as_slice() {
        [] => String::new(),
        does => format!(", in {}", does.join(" < ")),
    };
    format!("{} behind {name}{does}", root.behind)
}
