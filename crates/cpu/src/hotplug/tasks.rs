//! Processes bound only to CPUs that go offline.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::SysRoot;
use crate::list::CpuList;

/// Maximum number of processes listed by name.
const MAX_NAMES: usize = 5;

/// Processes bound only to CPUs that go offline. The kernel allows them to run elsewhere, and
/// does not restore the binding when the CPUs come back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BoundTasks {
    /// Number of processes.
    pub count: usize,
    /// Names and PIDs of the first few.
    pub some: Vec<String>,
}

/// Finds processes by `Cpus_allowed_list` in /proc/PID/status. Kernel threads are skipped:
/// those bound to one CPU wait until it is back.
pub(super) fn bound(root: &SysRoot, online: &CpuList, going: &CpuList) -> BoundTasks {
    let Ok(entries) = fs::read_dir(root.path("proc")) else {
        return BoundTasks::default();
    };
    let mut numbers: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    // Of a hundred thousand tasks, hardly any is bound. One system call per task excludes the
    // others; generating the text of a status file takes the kernel fifty times as long.
    if root.root() == Path::new("/") {
        let staying = Mask::of(&online.without(going));
        numbers.retain(|number| !Mask::of_task(*number).is_some_and(|mask| mask.meets(&staying)));
        // Most of the rest are kernel threads: each CPU has half a dozen.
        numbers.retain(|number| !runs_no_program(*number));
    }
    let mut tasks = BoundTasks::default();
    for number in numbers {
        let Some(status) = root.says(&format!("proc/{number}/status")) else {
            continue; // It has ended.
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim)
        };
        // kthreadd and its children.
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

/// Returns true if a task is known to have no program, as is the case for kernel threads
/// (proc_exe_link, fs/proc/base.c).
fn runs_no_program(number: u32) -> bool {
    let link = fs::read_link(format!("/proc/{number}/exe"));
    link.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// CPU mask in the format of the kernel's system calls: bit 0 of the first word is CPU 0.
struct Mask(Vec<libc::c_ulong>);

/// Maximum number of CPUs of any kernel (NR_CPUS).
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

    /// Returns the affinity of a task; `None` if the task has ended or may not be queried.
    fn of_task(number: u32) -> Option<Self> {
        let mut words: Vec<libc::c_ulong> = vec![0; MAX_CPUS / WORD];
        // SAFETY: the kernel writes at most the given number of bytes.
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
    fn mask_from_system_call_matches_proc_status() {
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
    fn only_kernel_threads_have_no_program() {
        assert!(!runs_no_program(std::process::id()));
        assert!(
            !runs_no_program(1),
            "the link of another user's process exists, even if it is unreadable"
        );
        // PID 2 is kthreadd, except in a PID namespace.
        if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert!(runs_no_program(2));
        }
    }
}
