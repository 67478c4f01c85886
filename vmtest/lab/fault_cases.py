"""Situations made on purpose, and the first finding that `bigiron diagnose` must report of each.

The expectations are written down before the code that meets them. Functions of the module, names of its threads and of
its variables are in guest-faults/.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

# Objects are poisoned and have red zones, so that the kernel notices what is wrong with them.
SLAB_CHECKS = "slub_debug=FZPU"

# The client of NFS; fscache is a part of netfs since 6.8.
NFS = ("sunrpc", "grace", "lockd", "nfs_acl", "netfs", "fscache", "nfs", "nfsv3")

MULTIPATH = ("dm-mod", "dm-multipath", "dm-round-robin")


@dataclass(frozen=True)
class Case:
    """A situation: how it is made, and what is to be found first."""

    name: str
    kind: str  # of the first finding; empty if nothing of weight may be found
    names: tuple[str, ...] = ()  # texts that the first finding must have
    waits: tuple[str, ...] = ()  # texts that one of the waits must have, or one of the calls of CPUs
    caller: str = ""  # what it is made from, if only that can make it
    command_line: str = ""
    settle: int = 12  # seconds from the situation to the dump
    ram_mib: int = 256
    panics: bool = False  # the dump is made of the panic that it leads to, not before
    seconds: int = 240  # in which the guest makes it, on a slow and busy machine
    modules: tuple[str, ...] = ()  # of the kernel, that the guest loads more, in their order
    flavours: Mapping[str, str] = field(default_factory=dict)  # of kernels, where the usual ones cannot have it
    only_x86: str = ""  # why it is not made on another architecture


_ALL = [
    # Tasks that wait for each other.
    Case("abba", "deadlock", ("faults-ab", "faults-ba", "first_mutex", "second_mutex"), settle=2),
    Case("rt-abba", "deadlock", ("faults-ab", "faults-ba", "first_rt_mutex", "second_rt_mutex"), settle=2),
    Case("three-way", "deadlock", ("faults-mutex", "faults-flush", "kworker", "take_first_mutex"), settle=2),
    Case("dead-owner", "dead-owner", ("faults-waiter", "first_mutex"), settle=2),
    Case("taken-twice", "deadlock", ("faults-maker", "first_mutex"), settle=2),
    Case("sleeping-owner", "lock-held", ("faults-owner", "first_mutex", "take_and_sleep")),
    Case("reader-sleeps", "lock-held", ("faults-owner", "faults_rwsem", "read_and_sleep")),
    Case("semaphore", "blocked", ("faults-waiter", "faults_semaphore")),
    Case("completion", "blocked", ("faults-waiter", "faults_completion")),
    Case("page-lock", "lock-held", ("faults-owner", "faults-waiter", "page 0x", "/faults-file", "ext4")),
    Case("buffer-lock", "lock-held", ("faults-owner", "faults-waiter", "buffer 0x", "block 100 of", "vda")),
    Case("inode-lock", "lock-held", ("faults-owner", "faults-waiter", "i_rwsem", "/faults-file", "ext4")),
    Case("memory-lock", "lock-held", ("cat", "by_file", "mmap_lock"), caller="file", settle=14),
    Case("futex-owner", "lock-held", ("futex-owner", "futex-waiter", "by_file", "futex 0x"), caller="file", settle=14),
    Case("stuck-work-queue", "stuck-work", ("sleep_in_work", "faults_queue", "faults-flusher")),
    Case("rcu-reader", "rcu-reader", ("faults-reader", "read_rcu_and_spin"), only_x86="Debian's arm64 kernel has no CONFIG_PREEMPT_RCU: it counts no readers"),
    # CPUs.
    Case("spinlock", "hard-lockup", ("faults-holder", "hold_with_interrupts_off")),
    Case("soft-lockup", "soft-lockup", ("faults-looper", "loop")),
    Case("unanswered-call", "hard-lockup", ("faults-holder", "hold_with_interrupts_off", "faults-asker", "answer"), waits=("faults-asker", "answer")),
    Case("unanswered-calls", "hard-lockup", ("faults-holder", "hold_with_interrupts_off", "faults-asker", "answer"), waits=("faults-asker", "answer")),
    # Timers and interrupts.
    Case("timer-storm", "timer-storm", ("rearm", "overdue")),
    Case("softirq-storm", "softirq-storm", ("schedule_again", "TASKLET", "ksoftirqd/1")),
    Case("interrupt-storm", "interrupt-storm", ("queue_again", "IWI"), only_x86="counts of arm64's interrupts between CPUs (IPI) are not read: found as hard-lockup"),
    # Memory. The kernel panics.
    Case("null-pointer", "null-pointer", ("use",)),
    Case("use-after-free", "use-after-free", ("use", "faults_things"), command_line=SLAB_CHECKS),
    Case("double-free", "double-free", ("double_free", "faults_things"), command_line=SLAB_CHECKS),
    Case("write-past-object", "slab-corruption", ("write_past_object", "faults_things"), command_line=SLAB_CHECKS, settle=2),
    Case("list-corruption", "list-corruption", ("list_corruption",)),
    Case("list-removed-twice", "list-poison", ("use",)),
    Case("flipped-bit", "flipped-bit", ("use", "faults_things")),
    Case("stack-overflow", "stack-overflow", ("recurse",)),
    Case("stack-end", "stack-end", ("faults-maker",)),
    Case("slab-leak", "out-of-memory", ("faults_things",)),
    Case("refcount-saturated", "refcount", ("put_thing", "underflow", "faults_things"), settle=2),
    Case("bad-page", "bad-page", ("free_locked_page", "locked"), settle=2),
    Case("bug", "kernel-bug", ("bug",)),
    # Made by processes.
    Case("user-memory", "out-of-memory", ("tail",)),
    Case("user-tmpfs", "out-of-memory", ("tmpfs on /mnt",), panics=True, settle=1),
    Case("user-group", "out-of-memory", ("memory cgroup /small", "16 MiB", "tail"), panics=True, settle=1),
    # Debian's kernels for clouds have machine checks since 6.12.
    Case("user-hardware", "hardware", ("bank 1", "uncorrected", "cache"), panics=True, settle=1, flavours={"6.1": "rt-amd64"}, only_x86="QEMU injects machine checks of x86 only"),
    Case("user-shutdown", "file-system", ("vda", "ext4", "shut down", '"init"'), settle=2),
    Case("user-aborted", "file-system", ("vda", "ext4", "the index is damaged", '"init"'), settle=2),
    Case("user-suspended", "suspended", ("faults", "dm-0", "vda", "dd", "sync"), waits=("dd", "dm-0"), modules=("dm-mod",)),
    Case("user-multipath", "multipath", ("faults", "dm-0", "vda", "queue_if_no_path", "dd"), modules=MULTIPATH),
    Case("user-nfs", "nfs", ("127.0.0.1", "ACCESS", "cat"), waits=("cat", "nfs", "ACCESS"), modules=NFS),
    Case("user-disk", "io", ("vda",), waits=("dd", '"page"', "vda")),
    Case("user-frozen", "frozen", ("vda",), waits=("touch", "s_writers", "ext4")),
]
CASES = {case.name: case for case in _ALL}

# Load on healthy kernels: nothing of weight may be found.
_LOADS = [
    "user-idle",
    "user-files",
    "user-cpu",
    "user-processes",
    "user-reclaim",
    "user-cgroup",
    "user-stopped",
    "user-crash",
    "load-locks",
    "load-warning",
]
LOADS = {name: Case(name, "", settle=0) for name in _LOADS}

# A hundred thousand tasks, a thousand of which have mutexes for which ten thousand wait: for the time of the search.
MANY = Case("many", "lock-held", ("faults-owner", "many_mutexes"), ram_mib=4608, seconds=1800)
