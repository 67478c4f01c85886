//! Available memory and processors.

use std::fs;
use std::sync::OnceLock;
use std::thread;

/// Divisor of free memory for the default budget. The rest is for the kernel's page cache,
/// through which the dump is written.
const SHARE_OF_FREE: u64 = 4;
/// Minimum budget in bytes; less does not hold one helper.
const MIN_BUDGET: u64 = 8 << 20;
/// Maximum default budget in bytes; more has no effect on speed.
const MAX_BUDGET: u64 = 1 << 30;

/// Memory that all helpers together may use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    bytes: u64,
}

impl MemoryBudget {
    /// Creates a budget of exactly this many bytes.
    pub fn of(bytes: u64) -> Self {
        Self { bytes }
    }

    /// Creates a budget from a share of the machine's free memory.
    pub fn from_free_memory() -> Self {
        let free = available_memory().unwrap_or(256 << 20);
        Self {
            bytes: (free / SHARE_OF_FREE).clamp(MIN_BUDGET, MAX_BUDGET),
        }
    }

    /// Returns the budget in bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the number of helpers of `per_helper` bytes that fit beside `shared` bytes for
    /// all: at least one and at most `wanted`.
    pub fn helpers(self, wanted: usize, shared: u64, per_helper: u64) -> usize {
        let fit = self.bytes.saturating_sub(shared) / per_helper.max(1);
        wanted
            .min(usize::try_from(fit).unwrap_or(usize::MAX))
            .max(1)
    }
}

/// Returns the memory that can be used without swapping, in bytes: MemAvailable of
/// /proc/meminfo.
pub fn available_memory() -> Option<u64> {
    parse_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the number of processors that this process may use, by its affinity and its cgroup,
/// as it was at the first call: a process that confines itself later cannot read them again.
pub fn processor_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_helpers_fits_the_memory() {
        let budget = MemoryBudget::of(20 << 20);
        assert_eq!(budget.helpers(8, 4 << 20, 4 << 20), 4);
        assert_eq!(budget.helpers(2, 4 << 20, 4 << 20), 2);
        assert_eq!(budget.helpers(8, 40 << 20, 4 << 20), 1);
    }

    #[test]
    fn available_memory_is_read_in_kilobytes() {
        let meminfo = "MemTotal:       24000000 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(parse_available(meminfo), Some(1 << 20));
        assert_eq!(parse_available("MemTotal: 1 kB\n"), None);
    }
}
