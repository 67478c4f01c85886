//! Finding: the kernel ran out of memory; who has it.
//!
//! Relies on the messages of the OOM killer (mm/oom_kill.c; `memory_report`), on
//! `_totalram_pages`, on slab caches (`slab`), on the resident pages of tasks (`tasks`), and on
//! file systems in memory (`memory_files`).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::memory_files::{self, MemoryFiles};
use super::memory_report::{Group, Zone, order};
use crate::error::InspectError;
use crate::slab::Slabs;
use crate::tasks::Task;
use crate::waits::TaskName;

/// Kind.
pub const KIND: &str = "out-of-memory";
/// Processes and caches named.
const SHOWN: usize = 3;
const MIB: u64 = 1 << 20;
/// A machine without memory needs the OOM killer again and again.
const LONG_NSEC: u64 = 60_000_000_000;

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let log = evidence.log();
    let Some(report) = log.last_report(is_first) else {
        return Ok(Vec::new());
    };
    let panic = log.crash.panic.as_ref().map(|panic| panic.message.as_str());
    let panicked = panic.filter(|text| text.contains("memory"));
    let program = evidence.program;
    let page = 1_u64 << program.kernel().source().page_shift();
    let total = program
        .variable("_totalram_pages", 8)
        .unwrap_or(0)
        .saturating_mul(page);
    let slabs = Slabs::of(&program.renewed()).unwrap_or_default();
    let mut tasks: Vec<&Task> = evidence
        .tasks()?
        .tasks
        .iter()
        .filter(|task| task.pid == task.tgid)
        .collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.rss_pages));
    let size = |task: &Task| task.rss_pages.unwrap_or(0).saturating_mul(page);
    let of_tasks = tasks
        .iter()
        .fold(0_u64, |sum, task| sum.saturating_add(size(task)));
    let most = tasks.first().map_or(0, |task| size(task));
    let cache = slabs.caches.first();
    let of_cache = cache.and_then(|cache| cache.bytes).unwrap_or(0);
    let files = memory_files::find(&program.renewed()).unwrap_or_default();
    let files: Vec<&MemoryFiles> = files.iter().filter(|files| files.bytes >= MIB).collect();
    let of_files = files.first().map_or(0, |files| files.bytes);
    let (who, sure) = match (cache, tasks.first()) {
        _ if of_files > most.max(of_cache) => (
            format!(
                "the files of {} have {} MiB",
                files.first().map_or("", |files| &files.name),
                of_files / MIB
            ),
            share(of_files, total),
        ),
        (Some(cache), _) if of_cache > most => (
            format!("the slab cache {} has {} MiB", cache.name, of_cache / MIB),
            share(of_cache, total),
        ),
        (_, Some(task)) => (
            format!("{} has {} MiB", TaskName::of(task), most / MIB),
            share(most, total),
        ),
        _ => ("nothing known has it".to_owned(), Sure::Possible),
    };
    let group = Group::of(&report);
    let since = log.last_time(is_first).zip(evidence.jiffies().ok());
    let since = since.map(|(then, now)| now.clock.saturating_sub(then));
    let weight = match panicked {
        Some(_) => 92,
        // The machine has memory, or has had some since.
        None if group.is_some() || since.is_some_and(|since| since >= LONG_NSEC) => 40,
        None => 55,
    };
    let title = match &group {
        Some(group) => format!(
            "memory ran out: the {group}; {}",
            of_group(&tasks, &size, group)
        ),
        None => format!("memory ran out: {who} of {} MiB", total / MIB),
    };
    let mut finding = Finding::new(KIND, weight, sure, title);
    if let Some(since) = since.filter(|_| panicked.is_none()) {
        finding = finding.because(format!("that was {} before the end", seconds(since)));
    }
    for line in report.iter().filter(|line| is_fact(line)).take(4) {
        finding = finding.because(format!("the log: {line}"));
    }
    for zone in Zone::all(&report)
        .iter()
        .filter(|zone| zone.is_short())
        .take(SHOWN)
    {
        finding = finding.because(zone.to_string());
    }
    if let Some(order) = order(&report).filter(|order| *order > 0) {
        let pages = 1_u64.checked_shl(order).unwrap_or(0);
        finding = finding.because(format!(
            "{pages} pages in a row were needed (order {order})"
        ));
    }
    for files in files.iter().take(SHOWN) {
        finding = finding
            .because(format!(
                "the files of {} have {} MiB",
                files.name,
                files.bytes / MIB
            ))
            .place(program, "super_block", files.super_block);
    }
    finding = finding.because(format!(
        "of {} MiB, slab caches have {} MiB and processes {} MiB",
        total / MIB,
        slabs.bytes() / MIB,
        of_tasks / MIB
    ));
    for cache in slabs.caches.iter().take(SHOWN) {
        let objects = cache.in_use.unwrap_or(0);
        let bytes = cache.bytes.unwrap_or(0) / MIB;
        finding = finding.because(format!(
            "the slab cache {} has {bytes} MiB: {objects} objects of {} bytes in use",
            cache.name, cache.object_size
        ));
    }
    for task in tasks.iter().take(SHOWN).filter(|task| size(task) >= MIB) {
        let name = TaskName::of(task);
        finding = finding
            .because(format!("{name} has {} MiB", size(task) / MIB))
            .task(&name);
    }
    Ok(vec![finding.more("bigiron info --memory --pages DUMP")])
}

/// The process that has most of a cgroup's memory, of those that the kernel lists.
fn of_group(tasks: &[&Task], size: &dyn Fn(&Task) -> u64, group: &Group) -> String {
    let mut named = tasks.iter().filter(|task| group.tasks.contains(&task.pid));
    match named.next() {
        Some(task) => format!("{} has {} MiB", TaskName::of(task), size(task) / MIB),
        None => "none of its processes is left".to_owned(),
    }
}

/// Whoever has half of the memory took it.
fn share(bytes: u64, total: u64) -> Sure {
    match bytes.saturating_mul(2) >= total {
        true => Sure::Certain,
        false => Sure::Likely,
    }
}

/// Returns true for the first line of a report.
fn is_first(line: &str) -> bool {
    line.contains(" invoked oom-killer: ")
}

fn is_fact(line: &str) -> bool {
    is_first(line)
        || line.starts_with("Out of memory: ")
        || line.starts_with("Memory cgroup out of memory: ")
        || line.starts_with("Node 0 active_anon:")
}
