//! Meaning of kernel errors for CPU hotplug.

use rustix::io::Errno;

use super::Direction;

/// Returns the meaning of an error, according to the kernel's sources.
pub(super) fn meaning(direction: Direction, errno: Errno) -> Option<&'static str> {
    Some(match (direction, errno) {
        // kernel/cpu.c: cpu_down_maps_locked, cpu_hotplug_disabled; kernel/sched/core.c: dl_bw_check_overflow;
        // kernel/time/tick-sched.c: tick_nohz_cpu_down
        (Direction::Offline, Errno::BUSY) => {
            "the CPU is in use: it is the last that is not isolated, a deadline task needs it, it keeps the time \
             for nohz_full CPUs, or hotplug is temporarily disabled (suspend, kexec)"
        }
        // kernel/cpu.c: CC_ATTR_HOTPLUG_DISABLED
        (Direction::Offline, Errno::OPNOTSUPP) => {
            "this platform does not support taking CPUs offline"
        }
        // kernel/cpu.c: cpu_up, cpu_smt_allowed
        (Direction::Online, Errno::PERM) => {
            "smt/control keeps hardware threads offline; see `bigiron cpu smt on`"
        }
        (Direction::Online, Errno::BUSY) => {
            "hotplug is temporarily disabled (suspend, kexec), or the CPU is still going offline"
        }
        (Direction::Online, Errno::IO | Errno::TIMEDOUT) => "the CPU does not respond",
        (Direction::Online, Errno::NOMEM) => "not enough memory to bring the CPU online",
        (_, Errno::PERM | Errno::ACCESS) => "the kernel or a security module forbids it",
        (_, Errno::INVAL) => "the CPU does not exist, or cannot be used",
        (_, Errno::ROFS) => "sysfs is mounted read-only",
        (_, Errno::NOENT) => "the CPU has no `online` file, or was removed",
        _ => return None,
    })
}
