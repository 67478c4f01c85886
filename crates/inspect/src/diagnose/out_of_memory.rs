//! Finding: the kernel ran out of memory; who has it.
//!
//! Relies on the messages of the OOM killer (mm/oom_kill.c), on `_totalram_pages`, on slab caches
//! (`slab`), and on the resident pages of tasks (`tasks`).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
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
    let (who, sure) = match (cache, tasks.first()) {
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
    let group = report.iter().any(|line| is_of_group(line));
    let since = log.last_time(is_first).zip(evidence.jiffies().ok());
    let since = since.map(|(then, now)| now.clock.saturating_sub(then));
    let weight = match panicked {
        Some(_) => 92,
        // The machine has memory, or has had some since.
        None if group || since.is_some_and(|since| since >= LONG_NSEC) => 40,
        None => 55,
    };
    let what = match group {
        true => "a memory cgroup reached its limit",
        false => "memory ran out",
    };
    let title = format!("{what}: {who} of {} MiB", total / MIB);
    let mut finding = Finding::new(KIND, weight, sure, title);
    if let Some(since) = since.filter(|_| panicked.is_none()) {
        finding = finding.because(format!("that was {} before the end", seconds(since)));
    }
    for line in report.iter().filter(|line| is_fact(line)).take(4) {
        finding = finding.because(format!("the log: {line}"));
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

/// Returns true for a line that says that the limit of a memory cgroup was reached.
fn is_of_group(line: &str) -> bool {
    line.starts_with("Memory cgroup out of memory: ")
        || line.starts_with("oom-kill:constraint=CONSTRAINT_MEMCG")
}

fn is_fact(line: &str) -> bool {
    is_first(line)
        || line.starts_with("Out of memory: ")
        || line.starts_with("Memory cgroup out of memory: ")
        || line.starts_with("Node 0 active_anon:")
}
