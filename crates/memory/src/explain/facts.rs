//! What of a machine decides how fast large memory is made and given back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bigiron_helpers::processor_count;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::machine::{available_memory, knows_advice, left_in_group, may_lock_all};
use crate::{preload, reaper};

/// MADV_POPULATE_READ, MADV_DONTNEED_LOCKED and MADV_COLLAPSE
/// (include/uapi/asm-generic/mman-common.h).
const POPULATE: i32 = 22;
const GIVE_BACK_LOCKED: i32 = 24;
const COLLAPSE: i32 = 25;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const POOLS: &str = "/sys/kernel/mm/hugepages";

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Facts {
    /// The kernel's release.
    pub kernel: String,
    /// Bytes of a small page.
    pub page_size: u64,
    /// Processors that this process may use at the same time.
    pub processors: usize,
    /// Processors of the machine.
    pub processors_online: usize,
    /// Memory nodes of the machine.
    pub nodes: usize,
    /// Bytes that this process can have without swapping.
    pub available_bytes: u64,
    /// What control groups still allow; none for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_group_bytes: Option<u64>,
    /// Whether pages are made by madvise(MADV_POPULATE_READ).
    pub madv_populate: bool,
    /// Whether locked pages are given back by madvise(MADV_DONTNEED_LOCKED).
    pub madv_dontneed_locked: bool,
    /// Whether huge pages are made by madvise(MADV_COLLAPSE).
    pub madv_collapse: bool,
    /// transparent_hugepage/enabled; empty where the kernel has none.
    pub huge_pages: String,
    /// The same for shared memory.
    pub huge_shared: String,
    /// Sizes in KiB of huge pages of shared memory with a setting of their own, but `never`.
    pub huge_shared_by_size: BTreeMap<u64, String>,
    /// Pools of huge pages: by size in KiB.
    pub pools: BTreeMap<u64, Pool>,
    /// RLIMIT_MEMLOCK in bytes; none for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_limit: Option<u64>,
    /// Whether this process may lock memory beyond that limit.
    pub may_lock_all: bool,
    /// The most bytes of a System V segment (kernel.shmmax).
    pub shmmax: u64,
    /// The most bytes of all of them (kernel.shmall).
    pub shmall_bytes: u64,
    /// Whether a seccomp filter looks at this process's calls.
    pub seccomp: bool,
    /// Whether this process may have a reaper.
    pub reaper: bool,
    /// What `bigiron mem run` loads into programs; none where it is not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preload_library: Option<String>,
}

/// A pool of huge pages.
#[derive(Debug, Serialize)]
pub struct Pool {
    /// Pages that it has.
    pub pages: u64,
    /// Those that nobody uses.
    pub free: u64,
}

impl Facts {
    pub(super) fn find(program: Option<&Path>) -> Self {
        let page_size = rustix::param::page_size() as u64;
        let library = program.and_then(|program| preload::find(program).ok());
        Self {
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            page_size,
            processors: processor_count(),
            processors_online: count(&text("/sys/devices/system/cpu/online")),
            nodes: count(&text("/sys/devices/system/node/online")).max(1),
            available_bytes: available_memory(),
            control_group_bytes: left_in_group(),
            madv_populate: knows_advice(POPULATE),
            madv_dontneed_locked: knows_advice(GIVE_BACK_LOCKED),
            madv_collapse: knows_advice(COLLAPSE),
            huge_pages: chosen(&text(&format!("{THP}/enabled"))),
            huge_shared: chosen(&text(&format!("{THP}/shmem_enabled"))),
            huge_shared_by_size: by_size(Path::new(THP), |directory| {
                let setting = chosen(&text(&format!("{directory}/shmem_enabled")));
                (!setting.is_empty() && setting != "never").then_some(setting)
            }),
            pools: by_size(Path::new(POOLS), |directory| {
                Some(Pool {
                    pages: number(&format!("{directory}/nr_hugepages"))?,
                    free: number(&format!("{directory}/free_hugepages"))?,
                })
            }),
            locked_limit: getrlimit(Resource::Memlock).current,
            may_lock_all: may_lock_all(),
            shmmax: number("/proc/sys/kernel/shmmax").unwrap_or(u64::MAX),
            shmall_bytes: number("/proc/sys/kernel/shmall")
                .unwrap_or(u64::MAX)
                .saturating_mul(page_size),
            seccomp: text("/proc/self/status").contains("\nSeccomp:\t2"),
            reaper: reaper::is_possible(),
            preload_library: library.map(|path| path.display().to_string()),
        }
    }
}

/// What `found` says of each directory `hugepages-NkB`, by N.
fn by_size<T>(directory: &Path, found: impl Fn(&str) -> Option<T>) -> BTreeMap<u64, T> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let size = name
                .to_str()?
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?;
            Some((size.parse().ok()?, found(entry.path().to_str()?)?))
        })
        .collect()
}

/// The word in brackets.
fn chosen(text: &str) -> String {
    let word = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    word.map(|(word, _)| word.to_owned()).unwrap_or_default()
}

/// How many numbers a list such as `0-3,6` has.
fn count(list: &str) -> usize {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.saturating_sub(first) + 1)
    });
    ranges.sum()
}

fn number(path: &str) -> Option<u64> {
    text(path).trim().parse().ok()
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_kernel_are_read() {
        assert_eq!(chosen("always within_size [advise] never\n"), "advise");
        assert_eq!(chosen(""), "");
        assert_eq!((count("0-3,6\n"), count("0\n"), count("")), (5, 1, 0));
    }
}
