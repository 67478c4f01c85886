//! Kernel settings that are changed temporarily, and restored also after a panic.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Serialize;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// The kernel settings that affect large memory.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// transparent_hugepage/enabled.
    pub enabled: String,
    /// transparent_hugepage/shmem_enabled.
    pub shmem_enabled: String,
    /// Number of hugetlb pages of 2 MiB: all, and free ones.
    pub pool: (u64, u64),
    /// RLIMIT_MEMLOCK in bytes; `None` for no limit.
    pub lock_limit: Option<u64>,
    /// Size of swap in bytes.
    pub swap: u64,
}

impl Facts {
    /// Reads the current settings.
    pub fn here() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
        let swap = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let swap = swap
            .lines()
            .find_map(|line| line.strip_prefix("SwapTotal:"));
        let swap = swap.and_then(|text| text.trim().trim_end_matches("kB").trim().parse().ok());
        Self {
            enabled: chosen(&format!("{THP}/enabled")),
            shmem_enabled: chosen(&format!("{THP}/shmem_enabled")),
            pool: (pool("nr_hugepages"), pool("free_hugepages")),
            lock_limit: limit
                .current
                .filter(|_| !rustix::process::geteuid().is_root()),
            swap: swap.unwrap_or(0_u64) << 10,
        }
    }

    /// Returns one line for the head of a table.
    pub fn line(&self) -> String {
        format!(
            "huge pages: enabled {}, shmem_enabled {}, {} hugetlb pages of 2 MiB; swap {} MiB",
            self.enabled,
            self.shmem_enabled,
            self.pool.0,
            self.swap >> 20
        )
    }

    /// True if shared memory gets huge pages on madvise.
    pub fn shmem_advised(&self) -> bool {
        matches!(
            self.shmem_enabled.as_str(),
            "always" | "within_size" | "advise" | "force"
        )
    }
}

/// Returns the value in brackets; empty if the kernel does not have the setting.
fn chosen(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or_else(String::new, |(value, _)| value.to_owned())
}

fn pool(name: &str) -> u64 {
    let text = fs::read_to_string(format!("{POOL}/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// A setting that is restored on drop.
#[derive(Debug)]
pub(super) struct Setting {
    path: PathBuf,
    before: String,
}

impl Setting {
    fn change(path: &Path, before: String, value: &str) -> anyhow::Result<Self> {
        fs::write(path, value)
            .with_context(|| format!("{}: cannot set it to {value}", path.display()))?;
        Ok(Self {
            path: path.into(),
            before,
        })
    }

    /// Enables huge pages in shared memory on madvise.
    pub fn shmem_advise() -> anyhow::Result<Self> {
        let path = format!("{THP}/shmem_enabled");
        Self::change(Path::new(&path), chosen(&path), "advise")
    }

    /// Provides at least `bytes` of free hugetlb pages.
    pub fn hugetlb_pool(bytes: usize) -> anyhow::Result<Self> {
        let (all, free) = (pool("nr_hugepages"), pool("free_hugepages"));
        let wanted = (bytes as u64).div_ceil(2 << 20);
        let path = format!("{POOL}/nr_hugepages");
        let raised = all + wanted.saturating_sub(free);
        let setting = Self::change(Path::new(&path), all.to_string(), &raised.to_string())?;
        let free = pool("free_hugepages");
        ensure!(
            free >= wanted,
            "{path}: the kernel provided {free} of {wanted} pages; memory is too full or fragmented"
        );
        Ok(setting)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // The error cannot be reported here; the next run shows the current setting.
        let _ = fs::write(&self.path, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_is_restored_on_drop_and_on_panic() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("setting");
        fs::write(&path, "never").unwrap();
        let changed = path.clone();
        let panicked = std::panic::catch_unwind(move || {
            let _setting = Setting::change(&changed, "never".into(), "advise").unwrap();
            assert_eq!(fs::read_to_string(&changed).unwrap(), "advise");
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "never");
    }

    #[test]
    fn current_value_is_the_one_in_brackets() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "always [madvise] never\n").unwrap();
        assert_eq!(chosen(file.path().to_str().unwrap()), "madvise");
        assert_eq!(chosen("/nowhere"), "");
    }
}
