//! Processes that run on nothing but CPUs that go.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::SysRoot;
use crate::list::CpuList;

/// Names that are told.
const MAX_NAMES: usize = 5;

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
pub(super) fn bound(place: &SysRoot, online: &CpuList, going: &CpuList) -> BoundTasks {
    let Ok(entries) = fs::read_dir(place.path("proc")) else {
        return BoundTasks::default();
    };
    let mut numbers: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    // Of a machine with a hundred thousand tasks almost none is bound: a system call each says so, where making the
    // text of a status takes the kernel fifty times as long.
    if place.root() == Path::new("/") {
        let staying = Mask::of(&online.without(going));
        numbers.retain(|number| !Mask::of_task(*number).is_some_and(|mask| mask.meets(&staying)));
        // Of the rest most are the kernel's: each CPU has half a dozen of its own.
        numbers.retain(|number| !runs_no_program(*number));
    }
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
            if tasks.some.len() < MAX_NAMES {
                let name = field("Name:").unwrap_or("?");
                tasks.some.push(format!("{name} ({number})"));
            }
        }
    }
    tasks
}

/// Whether a task is known to have no program, as kernel threads (proc_exe_link, fs/proc/base.c).
fn runs_no_program(number: u32) -> bool {
    let link = fs::read_link(format!("/proc/{number}/exe"));
    link.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// CPUs as the kernel's calls take them: bit 0 of the first word is CPU 0.
struct Mask(Vec<libc::c_ulong>);

/// More CPUs than any kernel has (NR_CPUS).
const MAX_CPUS: usize = 8192;
const WORD: usize = libc::c_ulong::BITS as usize;

impl Mask {
    fn of(cpus: &CpuList) -> Self {
        let mut words = vec![0; MAX_CPUS / WORD];
        for cpu in cpus.iter() {
            if let Some(word) = words.get_mut(cpu as usize / WORD) {
                *word |= 1 << (cpu as usize % WORD);
            }
        }
        Self(words)
    }

    /// Where a task may run; `None` if it has ended, or may not be asked about.
    fn of_task(number: u32) -> Option<Self> {
        let mut words: Vec<libc::c_ulong> = vec![0; MAX_CPUS / WORD];
        // SAFETY: the kernel writes at most as many bytes as it is told.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                number,
                size_of_val(&words[..]),
                words.as_mut_ptr(),
            )
        };
        (written > 0).then_some(Self(words))
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_mask_is_that_of_the_status() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed: CpuList = list.unwrap().trim().parse().unwrap();
        let mask = Mask::of_task(std::process::id()).unwrap();
        for cpu in 0..64 {
            let alone = Mask::of(&[cpu].into_iter().collect());
            assert_eq!(mask.meets(&alone), allowed.contains(cpu), "CPU {cpu}");
        }
        assert!(Mask::of_task(u32::MAX >> 1).is_none());
    }

    #[test]
    fn processes_run_programs() {
        assert!(!runs_no_program(std::process::id()));
        assert!(
            !runs_no_program(1),
            "nobody else's link can be read, but it is there"
        );
        // kthreadd, where this is not a namespace of its own.
        if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert!(runs_no_program(2));
        }
    }
}
