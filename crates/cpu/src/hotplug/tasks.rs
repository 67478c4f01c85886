//! Processes that run on nothing but CPUs that go.

use std::fs;

use serde::Serialize;

use super::Place;
use crate::list::CpuList;

/// Names that are told.
const MOST_NAMES: usize = 5;

/// Processes that are bound to CPUs that go. The kernel lets them run elsewhere, and does not bind
/// them again when the CPUs come back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BoundTasks {
    /// How many.
    pub count: usize,
    /// Names and numbers of some.
    pub some: Vec<String>,
}

/// By `Cpus_allowed_list` in /proc/PID/status. Kernel threads are left out: those bound to one CPU
/// wait until it is back.
pub(super) fn bound(place: &Place, online: &CpuList, going: &CpuList) -> BoundTasks {
    let Ok(entries) = fs::read_dir(place.path("proc")) else {
        return BoundTasks::default();
    };
    let mut numbers: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut tasks = BoundTasks::default();
    for number in numbers {
        let Some(status) = place.says(&format!("proc/{number}/status")) else {
            continue; // It has ended.
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim)
        };
        // kthreadd, and what it starts.
        if number == 2 || field("PPid:") == Some("2") {
            continue;
        }
        let allowed = field("Cpus_allowed_list:").and_then(|list| list.parse::<CpuList>().ok());
        let Some(on) = allowed.map(|allowed| allowed.and(online)) else {
            continue;
        };
        if !on.is_empty() && on.without(going).is_empty() {
            tasks.count += 1;
            if tasks.some.len() < MOST_NAMES {
                let name = field("Name:").unwrap_or("?");
                tasks.some.push(format!("{name} ({number})"));
            }
        }
    }
    tasks
}
