//! Names of functions that mean something by themselves: system calls, the places that hand
//! work out, and waiting.

use crate::signature::pattern;

/// What the kernel puts before the name of a system call: one call has one name on all
/// architectures, in native and compatibility mode (include/linux/syscalls.h,
/// arch/*/include/asm/syscall_wrapper.h), and in kernels before 4.17 (SyS, SYSC).
pub const SYSTEM_CALLS: [&str; 18] = [
    "SYSC_",
    "SyS_",
    "sys_",
    "__x64_",
    "__ia32_",
    "__arm64_",
    "__riscv_",
    "__s390_",
    "__s390x_",
    "____sys_",
    "___sys_",
    "__sys_",
    "__se_",
    "__se_sys_",
    "__do_sys_",
    "compat_SYSC_",
    "compat_SyS_",
    "ksys_",
];

/// Returns a function's name without the prefix of a system call, as short as it gets.
pub fn without_prefix(name: &str) -> &str {
    let all = SYSTEM_CALLS.iter();
    let shorter = all.filter_map(|prefix| name.strip_prefix(prefix));
    shorter.min_by_key(|name| name.len()).unwrap_or(name)
}

/// Returns true for a function that hands work to others: system calls, work queues, softirqs,
/// and the calls through tables of file and socket operations. Of a CPU that loops, the function
/// that such a one called is to blame: what it calls in turn differs from one sample of the
/// loop to the next.
pub fn hands_out_work(name: &str) -> bool {
    HAND_OUT
        .iter()
        .any(|pattern| pattern::is_match(pattern, name))
}

/// Returns true for the functions in which kernel threads begin, which all threads have in common
/// (kernel/kthread.c, arch/*/entry).
pub fn begins_thread(name: &str) -> bool {
    name == "kthread" || name.contains("ret_from_fork")
}

const HAND_OUT: &[&str] = &[
    // Entries: system calls, interrupts, threads (kernel/entry, kernel/softirq.c, kernel/kthread.c).
    "*do_syscall_*",
    "*do_fast_syscall_*",
    "*sysenter_dispatch*",
    "*tracesys_phase2*",
    "*el0_svc_handler*",
    "*invoke_syscall*",
    "*ret_fast_syscall*",
    "*do_softirq*",
    "*run_ksoftirqd*",
    "*smpboot_thread_fn*",
    "kthread",
    "*ret_from_fork*",
    "*start_secondary*",
    "*cpu_startup_entry*",
    "*exit_to_usermode*",
    "*task_work_run*",
    "*do_page_fault*",
    "page_fault",
    "*__do_fault*",
    // Work, timers, tasklets, calls on other CPUs.
    "*process_one_work*",
    "*call_timer_fn*",
    "*_run_timers*",
    "*run_timer_softirq*",
    "*hrtimer_run*",
    "*tasklet_action*",
    "*tasklet_hi_action*",
    "*smp_call_function*",
    // Files (fs/read_write.c, fs/open.c, fs/ioctl.c, mm/mmap.c).
    "*vfs_(write|read|iter_read|iter_write|ioctl|open)*",
    "*do_iter_(read|write)*",
    "*call_(read|write)_iter*",
    "*new_sync_(read|write)*",
    "*ksys_ioctl*",
    "*compat_ioctl*",
    "*compat_sys_ioctl*",
    "*blkdev_driver_ioctl*",
    "*blkdev_ioctl*",
    "call_mmap*",
    "*mmap_region*",
    "*do_mmap*",
    "*do_dentry_open*",
    "*__fput*",
    // Sockets (net/socket.c, net/core, net/netlink).
    "*netif_receive_skb*",
    "sock_(sendmsg|recvmsg|release|mmap|do_ioctl|ioctl)*",
    "__sock_release*",
    "(setsockopt|listen|accept)",
    "*kernel_(setsockopt|listen|accept)*",
    "*sock_common_setsockopt*",
    "*sk_common_release*",
    "compat_sock_ioctl*",
    "(nfnetlink|rtnetlink)_rcv_msg*",
    "netlink_dump*",
    "(socketpair|connect|ioctl)*",
    "sys_(socketpair|connect|ioctl)*",
];

/// The name of calls on other CPUs, of which there are several variants: it is the handing out
/// itself that hangs, since another CPU does not answer (kernel/smp.c).
pub const CALL_ON_OTHER_CPUS: &str = "smp_call_function";

/// Functions that wait for something that concerns the whole kernel. Who waits there is a
/// victim of who holds it, so all victims are one crash. The second name replaces the first.
pub const WAIT_FOR_ALL: [(&str, Option<&str>); 5] = [
    ("*rtnl_lock*", None),
    ("*synchronize_rcu*", Some("synchronize_rcu")),
    ("*synchronize_srcu*", Some("synchronize_rcu")),
    ("*synchronize_net*", Some("synchronize_rcu")),
    ("*synchronize_sched*", Some("synchronize_rcu")),
];

/// Functions that wait, in the stack of a task that hangs.
pub const WAIT: &[&str] = &[
    "*sched*",
    "*_lock*",
    "*_slowlock*",
    "*down*",
    "*rwsem*",
    "*completion*",
    "*kthread*",
    "*wait*",
    "*synchronize*",
    "*context_switch*",
    "*__switch_to*",
    "*cancel_delayed_work*",
    "*rcu_barrier*",
];
