//! What the kernel's errors mean for a CPU.

use rustix::io::Errno;

use super::Direction;

/// As far as the kernel's sources tell.
pub(super) fn meaning(direction: Direction, errno: Errno) -> Option<&'static str> {
    Some(match (direction, errno) {
        // kernel/cpu.c: cpu_down_maps_locked, cpu_hotplug_disabled; kernel/sched/core.c: dl_bw_check_overflow;
        // kernel/time/tick-sched.c: tick_nohz_cpu_down
        (Direction::Offline, Errno::BUSY) => {
            "something holds it: it is the last that is not isolated, a deadline task needs it, it keeps the time \
             for nohz_full CPUs, or hotplug is disabled for now (suspend, kexec)"
        }
        // kernel/cpu.c: CC_ATTR_HOTPLUG_DISABLED
        (Direction::Offline, Errno::OPNOTSUPP) => "this platform takes no CPU offline",
        // kernel/cpu.c: cpu_up, cpu_smt_allowed
        (Direction::Online, Errno::PERM) => {
            "smt/control keeps hardware threads offline; see `bigiron cpu smt on`"
        }
        (Direction::Online, Errno::BUSY) => {
            "hotplug is disabled for now (suspend, kexec), or it still goes down"
        }
        (Direction::Online, Errno::IO | Errno::TIMEDOUT) => "it does not answer",
        (Direction::Online, Errno::NOMEM) => "there is no memory for it",
        (_, Errno::PERM | Errno::ACCESS) => "the kernel or a security module forbids it",
        (_, Errno::INVAL) => "the kernel knows no such CPU, or it is none that can be used",
        (_, Errno::ROFS) => "sysfs is mounted read-only",
        (_, Errno::NOENT) => "it has no file `online`, or is gone",
        _ => return None,
    })
}
