//! Settings of the kernel (sysctl) that change what happens when memory or time runs out.
//!
//! Relies on the variables of kernel/sysctl.c, mm/, kernel/panic.c, kernel/watchdog.c and
//! kernel/hung_task.c, and on their initial values there.

use serde::Serialize;

use crate::program::Program;

/// A setting whose value is not the one that the kernel's sources give it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sysctl {
    /// Name, as sysctl(8) has it.
    pub name: &'static str,
    /// Its value.
    pub value: i64,
    /// The value with which the kernel starts, unless it was configured otherwise.
    pub default: i64,
}

/// A setting that is known.
struct Known {
    name: &'static str,
    symbol: &'static str,
    /// Size of the variable in bytes.
    size: u64,
    default: i64,
}

const fn known(name: &'static str, symbol: &'static str, size: u64, default: i64) -> Known {
    Known {
        name,
        symbol,
        size,
        default,
    }
}

/// The settings. Those that the kernel computes from the size of memory are left out.
const KNOWN: [Known; 28] = [
    known("kernel.hung_task_panic", "sysctl_hung_task_panic", 4, 0),
    known(
        "kernel.hung_task_timeout_secs",
        "sysctl_hung_task_timeout_secs",
        8,
        120,
    ),
    known("kernel.panic", "panic_timeout", 4, 0),
    known("kernel.panic_on_io_nmi", "panic_on_io_nmi", 4, 0),
    known("kernel.panic_on_oops", "panic_on_oops", 4, 0),
    known(
        "kernel.panic_on_rcu_stall",
        "sysctl_panic_on_rcu_stall",
        4,
        0,
    ),
    known(
        "kernel.panic_on_unrecovered_nmi",
        "panic_on_unrecovered_nmi",
        4,
        0,
    ),
    known("kernel.panic_on_warn", "panic_on_warn", 4, 0),
    known("kernel.randomize_va_space", "randomize_va_space", 4, 2),
    known(
        "kernel.sched_rt_runtime_us",
        "sysctl_sched_rt_runtime",
        4,
        950_000,
    ),
    known("kernel.softlockup_panic", "softlockup_panic", 4, 0),
    known("kernel.watchdog_thresh", "watchdog_thresh", 4, 10),
    known("vm.dirty_background_bytes", "dirty_background_bytes", 8, 0),
    known("vm.dirty_background_ratio", "dirty_background_ratio", 4, 10),
    known("vm.dirty_bytes", "vm_dirty_bytes", 8, 0),
    known("vm.dirty_ratio", "vm_dirty_ratio", 4, 20),
    known("vm.max_map_count", "sysctl_max_map_count", 4, 65_530),
    known(
        "vm.oom_kill_allocating_task",
        "sysctl_oom_kill_allocating_task",
        4,
        0,
    ),
    known("vm.overcommit_kbytes", "sysctl_overcommit_kbytes", 8, 0),
    known("vm.overcommit_memory", "sysctl_overcommit_memory", 4, 0),
    known("vm.overcommit_ratio", "sysctl_overcommit_ratio", 4, 50),
    known("vm.panic_on_oom", "sysctl_panic_on_oom", 4, 0),
    known("vm.swappiness", "vm_swappiness", 4, 60),
    known("vm.vfs_cache_pressure", "sysctl_vfs_cache_pressure", 4, 100),
    known(
        "vm.watermark_boost_factor",
        "watermark_boost_factor",
        4,
        15_000,
    ),
    known("vm.watermark_scale_factor", "watermark_scale_factor", 4, 10),
    known("vm.workingset_protection", "vm_workingset_protection", 4, 1),
    known("vm.zone_reclaim_mode", "node_reclaim_mode", 4, 0),
];

/// Returns the settings that are not as the kernel starts with; those that this kernel does not
/// have are left out.
pub fn changed(program: &Program) -> Vec<Sysctl> {
    let values = KNOWN.iter().filter_map(|known| {
        let value = program.variable(known.symbol, known.size).ok()?;
        let value = match known.size {
            4 => i64::from(u32::try_from(value).ok()?.cast_signed()),
            _ => value.cast_signed(),
        };
        Some((known, value))
    });
    let changed = values.filter(|(known, value)| *value != known.default);
    changed
        .map(|(known, value)| Sysctl {
            name: known.name,
            value,
            default: known.default,
        })
        .collect()
}
