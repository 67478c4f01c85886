//! `bigiron info --irq`.

use bigiron_inspect::interrupts::{Counts, Line};
use bigiron_inspect::{Interrupts, Program};

use super::page::Page;
use super::topic::Topic;

/// Name of the topic in JSON.
pub const NAME: &str = "irq";
/// CPUs shown of an interrupt: those that took it most often.
const SHOWN_CPUS: usize = 4;

/// Finds the interrupts.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(NAME, Interrupts::of(program), show)
}

/// Shows the interrupts that somebody has requested, or that came.
fn show(found: &Interrupts, page: &mut Page) {
    let is_used = |line: &&Line| !line.actions.is_empty() || total(&line.counts) > 0;
    let lines = found.lines.iter().filter(is_used);
    let rows: Vec<Vec<String>> = lines.map(|line| row(found, line)).collect();
    let heading = format!("interrupts: {} used", rows.len());
    let columns = ["IRQ", "count", "controller", "used by", "state", "CPUs"];
    page.table(&heading, &columns, &[0, 1], &rows);
    for (heading, all) in [
        ("interrupts of CPUs", &found.of_cpus),
        ("softirqs", &found.soft),
    ] {
        let rows: Vec<Vec<String>> = all.iter().map(|counts| of_cpus(found, counts)).collect();
        page.table(heading, &["kind", "count", "CPUs"], &[1], &rows);
    }
    for gap in &found.gaps {
        page.line("", &format!("not known: {gap}"));
    }
}

fn row(found: &Interrupts, line: &Line) -> Vec<String> {
    let names: Vec<&str> = line
        .actions
        .iter()
        .map(|action| action.name.as_str())
        .collect();
    let disabled = line.disabled > 0 && !line.actions.is_empty();
    vec![
        line.number.to_string(),
        total(&line.counts).to_string(),
        line.controller.clone().unwrap_or_default(),
        names.join(", "),
        if disabled { "disabled" } else { "" }.to_owned(),
        busiest(found, &line.counts),
    ]
}

fn of_cpus(found: &Interrupts, counts: &Counts) -> Vec<String> {
    vec![
        counts.name.to_owned(),
        total(&counts.counts).to_string(),
        busiest(found, &counts.counts),
    ]
}

fn total(counts: &[u64]) -> u64 {
    counts
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

/// Formats the CPUs with the highest counts as `1: 300, 0: 20, and 2 more`.
fn busiest(found: &Interrupts, counts: &[u64]) -> String {
    let of_each = found.cpus.iter().zip(counts);
    let mut taken: Vec<_> = of_each.filter(|(_, count)| **count > 0).collect();
    taken.sort_by_key(|(cpu, count)| (std::cmp::Reverse(**count), **cpu));
    let more = taken.len().saturating_sub(SHOWN_CPUS);
    let shown = taken.iter().take(SHOWN_CPUS);
    let mut parts: Vec<String> = shown
        .map(|(cpu, count)| format!("{cpu}: {count}"))
        .collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join(", ")
}
