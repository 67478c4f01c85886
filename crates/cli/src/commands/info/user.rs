//! `bigiron info --user PID`.

use bigiron_inspect::user::{Mapping, Thread, UserFrame};
use bigiron_inspect::{Program, UserProcess};

use super::page::Page;
use super::topic::Topic;

/// Name of the topic in JSON.
pub const NAME: &str = "user";
/// Registers in a line.
const IN_LINE: usize = 4;

/// Finds a process.
pub fn find(program: &Program, pid: i32) -> anyhow::Result<Topic> {
    Topic::of(NAME, UserProcess::of(program, pid), show)
}

fn show(found: &UserProcess, page: &mut Page) {
    let rows: Vec<Vec<String>> = found.mappings.iter().map(row).collect();
    let heading = format!(
        "{}: {} mappings, {} threads",
        found.task,
        rows.len(),
        found.threads.len()
    );
    let columns = ["from", "to", "access", "offset", "file"];
    page.table(&heading, &columns, &[3], &rows);
    for thread in &found.threads {
        show_thread(thread, page);
    }
    for gap in &found.gaps {
        page.line("", &format!("not known: {gap}"));
    }
}

fn row(mapping: &Mapping) -> Vec<String> {
    vec![
        mapping.start.to_string(),
        mapping.end.to_string(),
        mapping.access.clone(),
        format!("{:#x}", mapping.offset),
        mapping.name.clone().unwrap_or_default(),
    ]
}

fn show_thread(thread: &Thread, page: &mut Page) {
    page.heading(&format!("{}, {}", thread.task, thread.task.state));
    for frame in &thread.frames {
        page.line("", &call(frame));
    }
    if !thread.end.is_empty() {
        page.line("", &format!("({})", thread.end));
    }
    let registers = thread.registers.iter().flat_map(|registers| &registers.0);
    let registers: Vec<String> = registers
        .map(|(name, value)| format!("{name} {value:#018x}"))
        .collect();
    for (index, line) in registers.chunks(IN_LINE).enumerate() {
        let label = if index == 0 { "registers" } else { "" };
        page.line(label, &line.join("  "));
    }
}

/// Formats a frame; with a question mark if only frame pointers lead to it.
fn call(frame: &UserFrame) -> String {
    let sure = if frame.sure { "" } else { "? " };
    match &frame.place {
        Some(place) => format!("{sure}{} {place}", frame.address),
        None => format!("{sure}{}", frame.address),
    }
}
