//! Properties of a machine that decide how fast large memory is created and freed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bigiron_helpers::processor_count;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::huge::parse_size;
use crate::machine::{available_memory, field, left_in_group, may_lock_all, supports_advice};
use crate::{preload, reaper};

/// MADV_POPULATE_READ, MADV_DONTNEED_LOCKED and MADV_COLLAPSE
/// (include/uapi/asm-generic/mman-common.h).
const POPULATE: i32 = 22;
const DONTNEED_LOCKED: i32 = 24;
const COLLAPSE: i32 = 25;

const THP: &str = "sys/kernel/mm/transparent_hugepage";
const POOLS: &str = "sys/kernel/mm/hugepages";

/// Properties of the machine, and the rights and limits of this process.
#[derive(Debug, Default, Serialize)]
pub struct Facts {
    /// Kernel release.
    pub kernel: String,
    /// Size of a small page in bytes.
    pub page_size: u64,
    /// Processors that this process may use at the same time.
    pub processors: usize,
    /// Processors of the machine.
    pub processors_online: usize,
    /// Memory nodes of the machine.
    pub nodes: usize,
    /// Bytes that this process can allocate without swapping.
    pub available_bytes: u64,
    /// Bytes that control groups still allow; `None` without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_group_bytes: Option<u64>,
    /// True if the kernel supports MADV_POPULATE_READ.
    pub madv_populate: bool,
    /// True if the kernel supports MADV_DONTNEED_LOCKED.
    pub madv_dontneed_locked: bool,
    /// True if the kernel supports MADV_COLLAPSE.
    pub madv_collapse: bool,
    /// Size of transparent huge pages in bytes; `None` if the kernel has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_page_size: Option<u64>,
    /// transparent_hugepage/enabled; empty if the kernel has no transparent huge pages.
    pub huge_pages: String,
    /// transparent_hugepage/shmem_enabled; empty if the kernel has no transparent huge pages.
    pub huge_shared: String,
    /// Settings for individual page sizes of shared memory (since Linux 6.11), by size in KiB.
    pub huge_shared_by_size: BTreeMap<u64, String>,
    /// Settings for individual page sizes of private memory (since Linux 6.8), by size in KiB.
    pub huge_pages_by_size: BTreeMap<u64, String>,
    /// Hugetlb pools, by page size in KiB.
    pub pools: BTreeMap<u64, Pool>,
    /// Page size in KiB of the pool for programs that name no size; `None` without hugetlb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_pool: Option<u64>,
    /// RLIMIT_MEMLOCK in bytes; `None` without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_limit: Option<u64>,
    /// True if this process may lock memory beyond RLIMIT_MEMLOCK (CAP_IPC_LOCK).
    pub may_lock_all: bool,
    /// Maximum size of a System V segment (kernel.shmmax).
    pub shmmax: u64,
    /// Maximum size of all System V segments together (kernel.shmall), in bytes.
    pub shmall_bytes: u64,
    /// True if a seccomp filter applies to this process.
    pub seccomp: bool,
    /// True if this process may start a reaper.
    pub reaper: bool,
    /// Path of the preload library; `None` if it was not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preload_library: Option<String>,
}

/// A hugetlb pool.
#[derive(Debug, Serialize)]
pub struct Pool {
    /// Pages in the pool.
    pub pages: u64,
    /// Unused pages.
    pub free: u64,
}

impl Facts {
    pub(super) fn find(program: Option<&Path>) -> Self {
        let library = program.and_then(|program| preload::find(program).ok());
        Self {
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            processors: processor_count(),
            available_bytes: available_memory(),
            control_group_bytes: left_in_group(),
            madv_populate: supports_advice(POPULATE),
            madv_dontneed_locked: supports_advice(DONTNEED_LOCKED),
            madv_collapse: supports_advice(COLLAPSE),
            locked_limit: getrlimit(Resource::Memlock).current,
            may_lock_all: may_lock_all(),
            reaper: reaper::is_possible(),
            preload_library: library.map(|path| path.display().to_string()),
            ..Self::in_files(&Files(Path::new("/")), rustix::param::page_size())
        }
    }

    /// Returns what the kernel reports in files, with pages of `page` bytes. Other facts are
    /// absent.
    pub(super) fn in_files(files: &Files<'_>, page: usize) -> Self {
        let huge = |name: &str| files.text(&format!("{THP}/{name}"));
        Self {
            page_size: page as u64,
            processors_online: count(&files.text("sys/devices/system/cpu/online")),
            nodes: count(&files.text("sys/devices/system/node/online")).max(1),
            huge_page_size: parse_size(&huge("hpage_pmd_size"), page).map(|size| size as u64),
            huge_pages: chosen(&huge("enabled")),
            huge_shared: chosen(&huge("shmem_enabled")),
            huge_shared_by_size: files.by_size(THP, |size| files.setting(size, "shmem_enabled")),
            huge_pages_by_size: files.by_size(THP, |size| files.setting(size, "enabled")),
            pools: files.by_size(POOLS, |size| {
                Some(Pool {
                    pages: files.number(&format!("{size}/nr_hugepages"))?,
                    free: files.number(&format!("{size}/free_hugepages"))?,
                })
            }),
            default_pool: field(&files.text("proc/meminfo"), "Hugepagesize:"),
            shmmax: files.number("proc/sys/kernel/shmmax").unwrap_or(u64::MAX),
            shmall_bytes: files
                .number("proc/sys/kernel/shmall")
                .unwrap_or(u64::MAX)
                .saturating_mul(page as u64),
            seccomp: files.text("proc/self/status").contains("\nSeccomp:\t2"),
            ..Self::default()
        }
    }
}

/// The kernel's files, below `/` or below a directory with copies of another machine's.
pub(super) struct Files<'a>(pub(super) &'a Path);

impl Files<'_> {
    /// Returns the text of a file; empty if it cannot be read.
    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path).trim().parse().ok()
    }

    /// Returns the setting of one size of huge pages, named by its directory.
    fn setting(&self, size: &str, name: &str) -> Option<String> {
        Some(chosen(&self.text(&format!("{size}/{name}")))).filter(|setting| !setting.is_empty())
    }

    /// Returns the results of `found` for the directories `hugepages-NkB`, by N.
    fn by_size<T>(&self, directory: &str, found: impl Fn(&str) -> Option<T>) -> BTreeMap<u64, T> {
        let entries = fs::read_dir(self.0.join(directory));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let name = entry.file_name();
                let name = name.to_str()?;
                let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
                Some((size.parse().ok()?, found(&format!("{directory}/{name}"))?))
            })
            .collect()
    }
}

/// Returns the word in brackets, the current setting.
fn chosen(text: &str) -> String {
    let word = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    word.map(|(word, _)| word.to_owned()).unwrap_or_default()
}

/// Returns the number of elements of a list such as `0-3,6`.
fn count(list: &str) -> usize {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.saturating_sub(first) + 1)
    });
    ranges.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bracketed_settings_and_cpu_lists_are_parsed() {
        assert_eq!(chosen("always within_size [advise] never\n"), "advise");
        assert_eq!(chosen(""), "");
        assert_eq!((count("0-3,6\n"), count("0\n"), count("")), (5, 1, 0));
    }
}
