//! The table of kinds.
//!
//! To add a kind, add a line to the beginning that its first line contains; sharper patterns
//! stand before those that take any line. The comments name the kernel's file that prints it.

use super::Choice::{HandedOut, Waiting};
use super::ways::{
    ACQUIRED, BAD_ACCESS, BAD_FREE, BECAME_UNSAFE, CALLS, FAULT, HANG, INSTRUCTION, KASAN, KFENCE,
    KMSAN, LAST_ALLOCATED, LEAKED, LOCK_KEPT, OVERFLOW, RCU_USERS, SOCKET_LOCK, STALL, STALLED,
    UBSAN, UNLOCKED, USB_MESSAGES, WARNED,
};
use super::{Beginning, Kind};

/// The table.
pub const BEGINNINGS: &[Beginning] = &[
    Beginning {
        word: "BUG:",
        not: &["DEBUG:", "BUG: no syscalls can create resource"],
        kinds: &[
            // mm/kasan/report.c.
            Kind::new("BUG: KASAN: {kind} in {function}", "KASAN: {kind} {access} in {function}")
                .then(&["{access=Read|Write} (of size|at addr) {number}"])
                .by(KASAN)
                .skip(&["*kernel_fault*", "*tag_check*", "*mem_abort*", "el1_*", "el1h_*"])
                .coarse(BAD_ACCESS),
            Kind::new("BUG: KASAN: (double-free or invalid-free|double-free|invalid-free) in {function}", "KASAN: invalid-free in {function}")
                .by(KASAN)
                .skip(&["*slab_*", "*kfree*", "*vunmap*", "*vfree*"])
                .coarse(BAD_FREE),
            Kind::new("BUG: KASAN: {kind} on address", "KASAN: {kind} {access}")
                .then(&["{access=Read|Write} of size #"]),
            Kind::new("BUG: KASAN: {text*}", "KASAN: {text}").rest(),
            // mm/kmsan/report.c.
            Kind::new("BUG: KMSAN: kernel-usb-infoleak in {function}", "KMSAN: kernel-usb-infoleak in {function}")
                .by(KMSAN)
                .skip(USB_MESSAGES)
                .coarse(&["KMSAN origin in {origin}"])
                .without_trace(),
            Kind::new("BUG: KMSAN: {kind} in {function}", "KMSAN: {kind} in {function}")
                .by(KMSAN)
                .skip(&["*alloc_skb*", "*netlink_ack*", "*netlink_rcv_skb*", "*_encrypt", "(crypto|cipher|drbg|rng)_*"])
                .coarse(BAD_ACCESS)
                .without_trace(),
            // kernel/kcsan/report.c.
            Kind::new("BUG: KCSAN: {text*}", "KCSAN: {text}").without_trace(),
            // mm/kfence/report.c.
            Kind::new("BUG: KFENCE: {kind=use-after-free|out-of-bounds|invalid} {access=read|write} in {function}", "KFENCE: {kind} {access} in {function}")
                .by(KFENCE)
                .coarse(BAD_ACCESS),
            Kind::new("BUG: KFENCE: invalid free in {function}", "KFENCE: invalid free in {function}")
                .by(KFENCE)
                .coarse(BAD_FREE)
                .without_trace(),
            Kind::new("BUG: KFENCE: memory corruption in {function}", "KFENCE: memory corruption in {function}")
                .by(KFENCE)
                .without_trace(),
            // arch/x86/mm/fault.c, arch/powerpc/mm/fault.c.
            Kind::new("BUG: (unable to handle kernel paging request|unable to handle page fault for address|Unable to handle kernel data access|Unable to handle kernel instruction fetch)", "BUG: unable to handle kernel paging request in {function}")
                .by(FAULT)
                .coarse(BAD_ACCESS),
            Kind::new("BUG: (unable to handle kernel|kernel|Kernel) NULL pointer dereference", "BUG: unable to handle kernel NULL pointer dereference in {function}")
                .by(FAULT)
                .coarse(BAD_ACCESS),
            Kind::new("BUG: (u|U)nable to handle kernel", "BUG: unable to handle kernel").rest(),
            // kernel/locking/spinlock_debug.c.
            Kind::new("BUG: {lock=spinlock|rwlock} {trouble=lockup suspected|already unlocked|recursion|cpu recursion|bad magic|wrong owner|wrong CPU|trylock failure on UP}", "BUG: {lock} {trouble} in {function}")
                .by(CALLS)
                .skip(&["*spin_*", "*_lock*", "*_unlock*"]),
            // kernel/watchdog.c.
            Kind::new("BUG: soft lockup", "BUG: soft lockup in {function}")
                .by(FAULT)
                .choose(HandedOut)
                .coarse(STALL),
            // kernel/locking/lockdep.c, kernel/sched/core.c.
            Kind::new("BUG: *still has locks held!", "BUG: still has locks held in {function}")
                .then(&["{pc}{function}"]),
            Kind::new("BUG: scheduling while atomic", "BUG: scheduling while atomic in {function}")
                .by(CALLS)
                .skip(&["*schedule*", "*(msleep|usleep)*"]),
            Kind::new("BUG: lock held when returning to user space", "BUG: lock held when returning to user space in {function}")
                .then(LOCK_KEPT)
                .without_trace(),
            Kind::new("BUG: bad unlock balance detected!", "BUG: bad unlock balance in {function}").by(UNLOCKED),
            Kind::new("BUG: held lock freed!", "BUG: held lock freed in {function}")
                .then(&["{pc}{function}"]),
            Kind::new("BUG: Invalid wait context", "WARNING: locking bug in {function}")
                .by(CALLS)
                .skip(SOCKET_LOCK),
            // mm/page_alloc.c, mm/memory.c, kernel/fork.c, fs/dcache.c.
            Kind::new("BUG: Bad rss-counter state", "BUG: Bad rss-counter state").without_trace(),
            Kind::new("BUG: non-zero {counter} on freeing mm", "BUG: non-zero {counter} on freeing mm").without_trace(),
            Kind::new("BUG: Dentry * still in use * [unmount of {type*}]", "BUG: Dentry still in use in unmount")
                .coarse(&["BUG: Dentry still in use [unmount of {type}]"]),
            Kind::new("BUG: Bad page {what=state|cache}", "BUG: Bad page {what} in {function}")
                .by(LAST_ALLOCATED)
                .skip(&["*(free|put|get|update|release)_page*", "*free_unref*", "folio*", "_folio*", "__folio*", "*truncate_inode_pages*", "*page_frag_free*", "*alloc*", "*vmap*", "*page_owner*"]),
            Kind::new("BUG: Bad page map", "BUG: Bad page map"),
            // kernel/workqueue.c.
            Kind::new("BUG: workqueue lockup", "BUG: workqueue lockup").without_trace(),
            Kind::new("BUG: workqueue leaked", "BUG: workqueue leaked lock or atomic in {name}")
                .then(&["last function: {name}"])
                .without_trace(),
            // kernel/sched/core.c, lib/smp_processor_id.c.
            Kind::new("BUG: sleeping function called from invalid context at ", "BUG: sleeping function called from invalid context in {function}")
                .by(CALLS),
            Kind::new("BUG: using {name}*in preemptible", "BUG: using {name}() in preemptible code in {function}")
                .by(CALLS)
                .skip(&["*dump_stack*", "*preempt*", "*debug_*", "*processor_id*", "*this_cpu*"]),
            // mm/kmemleak.c.
            Kind::new("BUG: memory leak", "memory leak in {function}")
                .by(LEAKED)
                .skip(&["*kmemleak*", "*mmap*", "*kmem*", "*slab*", "*alloc*", "*create_object*", "*idr_get*", "*list_lru_init*", "*pcpu_create*"]),
            // arch/x86/kernel/traps.c (handle_stack_overflow).
            Kind::new("BUG: *stack guard page was hit at", "BUG: stack guard page was hit in {function}")
                .by(FAULT)
                .choose(HandedOut)
                .coarse(OVERFLOW),
        ],
    },
    Beginning {
        word: "WARNING:",
        not: &[
            "WARNING: /etc/ssh/moduli does not exist",
            "WARNING: workqueue cpumask: online intersect > possible intersect",
            "WARNING: (T|t)he mand mount option",
            "WARNING: Unsupported flag value",
            "WARNING: Unprivileged eBPF is enabled with eIBRS",
            "WARNING: fbcon: Driver '",
            "WARNING: See http",
            "WARNING: kernel not compiled with",
            "EXT4-(f|F)(s|S)",
            "XFS *: WARNING",
            "WARNING: * uses (deprecated v2 capabilities|wireless extensions)",
        ],
        kinds: &[
            // lib/debugobjects.c.
            Kind::new("WARNING: *lib/debugobjects.c* (debug_print|debug_check|at)", "WARNING: ODEBUG bug in {function}")
                .by(WARNED)
                .skip(&["*debug_*", "*rcu*", "*hrtimer_*", "*timer_*", "*work_*", "*percpu_*", "*vunmap*", "*vfree*", "*__free_*"]),
            Kind::new("WARNING: *mm/usercopy.c* (usercopy_warn|at)", "WARNING: bad usercopy in {function}")
                .by(WARNED)
                .skip(&["*usercopy*", "*__check*"]),
            Kind::new("WARNING: *lib/kobject.c* (kobject_|at)", "WARNING: kobject bug in {function}").by(WARNED),
            Kind::new("WARNING: *fs/proc/generic.c* (proc_register|at)", "WARNING: proc registration bug in {function}")
                .by(WARNED)
                .skip(&["*proc_*"]),
            Kind::new("WARNING: *lib/refcount.c* (refcount_|at)", "WARNING: refcount bug in {function}")
                .by(WARNED)
                .skip(&["*refcount*"]),
            Kind::new("WARNING: *lib/list_debug.c* ", "WARNING in {function}")
                .by(WARNED)
                .coarse(&["BUG: corrupted list in {function}"]),
            Kind::new("WARNING: *kernel/locking/lockdep.c*lock_", "WARNING: locking bug in {function}")
                .by(WARNED)
                .skip(SOCKET_LOCK),
            Kind::new("WARNING: *still has locks held!", "WARNING: still has locks held in {function}")
                .then(&["at: {function}"]),
            Kind::new("WARNING: Nested lock was not taken", "WARNING: nested lock was not taken in {function}").by(WARNED),
            Kind::new("WARNING: lock held when returning to user space", "WARNING: lock held when returning to user space in {function}")
                .then(LOCK_KEPT)
                .without_trace(),
            Kind::new("WARNING: *mm/*.c:* (kvmalloc|kmalloc|kzalloc|vmalloc)", "WARNING: kmalloc bug in {function}")
                .by(WARNED)
                .skip(&["*kmalloc*", "*krealloc*", "*slab*", "*kmem*"]),
            Kind::new("WARNING: *mm/vmalloc.c*__vmalloc_node", "WARNING: zero-size vmalloc in {function}").by(WARNED),
            // drivers/usb/core/urb.c: a driver that passes it a wrong request.
            Kind::new("WARNING: * usb_submit_urb", "WARNING in {function}/usb_submit_urb")
                .by(WARNED)
                .skip(USB_MESSAGES),
            // __warn, kernel/panic.c; the file comes first since 6.19.
            Kind::new("WARNING: * at {source} {function}", "WARNING in {function}").by(WARNED),
            Kind::new("WARNING: {source} at ", "WARNING in {function}").by(WARNED),
            Kind::new("WARNING: [*] {source} at ", "WARNING in {function}").by(WARNED),
            // kernel/locking/lockdep.c.
            Kind::new("WARNING: possible circular locking dependency detected", "possible deadlock in {function}")
                .then(&["is trying to acquire lock"])
                .by(ACQUIRED)
                .skip(&["*process_one_work*", "*flush_workqueue*"]),
            Kind::new("WARNING: possible irq lock inversion dependency detected", "possible deadlock in {function}")
                .then(&["just changed the state of lock", "at: {pc?}{function}"]),
            Kind::new("WARNING: *-safe -> *-unsafe lock order detected", "possible deadlock in {function}").by(BECAME_UNSAFE),
            Kind::new("WARNING: possible recursive locking detected", "possible deadlock in {function}")
                .then(&["is trying to acquire lock", "at: {pc?}{function}"]),
            Kind::new("WARNING: inconsistent lock state", "inconsistent lock state in {function}")
                .then(&["takes", "at: {pc?}{function}"])
                .by(CALLS),
            Kind::new("WARNING: suspicious RCU usage", "WARNING: suspicious RCU usage in {function}")
                .then(&["{source}"])
                .by(CALLS)
                .skip(RCU_USERS),
            Kind::new("WARNING: bad unlock balance detected!", "WARNING: bad unlock balance in {function}").by(UNLOCKED),
            Kind::new("WARNING: held lock freed!", "WARNING: held lock freed in {function}")
                .then(&["at: {pc?}{function}"]),
            // arch/x86/kernel/unwind_frame.c.
            Kind::new("WARNING: kernel stack (regs|frame pointer) * has bad", "WARNING: kernel stack regs has bad value")
                .without_trace(),
        ],
    },
    Beginning {
        word: "INFO:",
        not: &[
            "INFO: lockdep is turned off",
            "INFO: Stall ended before state dump start",
            "INFO: NMI handler",
            "INFO: recovery required on readonly filesystem",
            "(handler|interrupt)*took too long",
            "INFO: sys_* is not present in /proc/kallsyms",
            "INFO: no syscalls can create resource",
            "rmt_storage:INFO:",
            "_INFO:",
            // The console of Xen: acpi_fadt_parse_sleep_info().
            "SLEEP INFO:",
        ],
        kinds: &[
            // Until 4.14, lockdep's reports were informational.
            Kind::new("INFO: possible (circular locking dependency|recursive locking) detected", "possible deadlock in {function}")
                .then(&["is trying to acquire lock", "at: {pc}{function}"]),
            Kind::new("INFO: possible irq lock inversion dependency detected", "possible deadlock in {function}")
                .then(&["just changed the state of lock", "at: {pc}{function}"]),
            Kind::new("INFO: *-safe -> *-unsafe lock order detected", "possible deadlock in {function}")
                .then(&["is trying to acquire", "at: {pc}{function}"]),
            Kind::new("INFO: inconsistent lock state", "inconsistent lock state in {function}")
                .then(&["takes", "at: {pc}{function}"]),
            Kind::new("INFO: trying to register non-static key", "INFO: trying to register non-static key in {function}")
                .by(CALLS)
                .skip(&["*stack*", "*lock*", "*IRQ*"]),
            Kind::new("INFO: suspicious RCU usage", "INFO: suspicious RCU usage in {function}")
                .then(&["{source}"])
                .by(CALLS)
                .skip(RCU_USERS),
            // kernel/rcu/tree_stall.h.
            Kind::new("INFO: rcu_(preempt|sched|bh|tasks) (detected|self-detected) (stall|expedited stall)", "INFO: rcu detected stall in {function}")
                .by(STALLED)
                .skip(&["*apic_timer_interrupt*", "*rcu*"])
                .choose(HandedOut)
                .coarse(STALL),
            // kernel/hung_task.c.
            Kind::new("INFO: task * blocked *for more than # seconds", "INFO: task hung in {function}")
                .by(CALLS)
                .choose(Waiting)
                .coarse(HANG),
            Kind::new("INFO: task * can't die for more than * seconds", "INFO: task can't die in {function}")
                .by(CALLS)
                .skip(&["*schedule*"])
                .coarse(HANG),
            Kind::new("INFO: {what=Freed|Allocated} in {text*}", "INFO: {what} in {text}").rest(),
        ],
    },
    // arm64, riscv64, s390x and arm: die_kernel_fault, arch/*/mm/fault.c.
    Beginning {
        word: "Unable to handle kernel",
        not: &[],
        kinds: &[
            Kind::new("Unable to handle kernel {what=paging request|NULL pointer dereference|access to user memory}", "BUG: unable to handle kernel {what} in {function}")
                .by(FAULT)
                .coarse(BAD_ACCESS),
            Kind::new("Unable to handle kernel pointer dereference in virtual kernel address space", "BUG: unable to handle kernel NULL pointer dereference in {function}")
                .then(&["Failing address: 0000000000000"])
                .by(FAULT)
                .coarse(BAD_ACCESS),
            Kind::new("Unable to handle kernel pointer dereference", "BUG: unable to handle kernel paging request in {function}")
                .by(FAULT)
                .coarse(BAD_ACCESS),
        ],
    },
    // arch/x86/kernel/traps.c. With `error:# in` it is a user program's.
    Beginning {
        word: "general protection fault",
        not: &["general protection fault * error:# in "],
        kinds: &[Kind::new("general protection fault*:", "general protection fault in {function}")
            .by(FAULT)
            .coarse(BAD_ACCESS)],
    },
    Beginning {
        word: "stack segment: ",
        not: &[],
        kinds: &[Kind::new("stack segment: ", "stack segment fault in {function}").by(FAULT)],
    },
    Beginning {
        word: "int3: ",
        not: &[],
        kinds: &[Kind::new("int3: ", "int3 in {function}").by(FAULT)],
    },
    // A requested crash (drivers/tty/sysrq.c) panics, or until 5.x writes to address 0.
    Beginning {
        word: "Trigger a crash",
        not: &[],
        kinds: &[Kind::new("(sysrq: |SysRq : )Trigger a crash", "kernel panic: sysrq triggered crash").without_trace()],
    },
    // kernel/panic.c.
    Beginning {
        word: "Kernel panic",
        not: &[],
        kinds: &[
            Kind::new("Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: {function}", "kernel panic: stack is corrupted in {function}").without_trace(),
            Kind::new("Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: ", "kernel panic: stack is corrupted in {function}")
                .by(CALLS)
                .skip(&["*stack_chk*"]),
            Kind::new("Kernel panic - not syncing: corrupted stack end detected inside scheduler", "kernel panic: corrupted stack end in {function}")
                .by(CALLS)
                .skip(&["*schedule*", "*retint_kernel*"])
                .choose(HandedOut)
                .coarse(OVERFLOW),
            Kind::new("Kernel panic - not syncing: kernel stack overflow", "kernel stack overflow in {function}")
                .by(CALLS)
                .skip(&["*bad_stack*"])
                .choose(HandedOut)
                .coarse(OVERFLOW),
            Kind::new("Kernel panic - not syncing: Attempted to kill init!", "kernel panic: Attempted to kill init!"),
            Kind::new("Kernel panic - not syncing: Couldn't open N_TTY ldisc for ", "kernel panic: Couldn't open N_TTY ldisc"),
            // These end a report, whose beginning is missing.
            Kind::new("Kernel panic - not syncing: {what=Fatal exception|panic_on_warn set|hung_task: blocked tasks}", "kernel panic: {what}").rest(),
            Kind::new("Kernel panic - not syncing: {text*}", "kernel panic: {text}"),
        ],
    },
    Beginning {
        word: "PANIC: double fault",
        not: &[],
        kinds: &[Kind::new("PANIC: double fault", "PANIC: double fault in {function}").by(INSTRUCTION)],
    },
    Beginning {
        word: "double fault: ",
        not: &[],
        kinds: &[Kind::new("double fault: ", "PANIC: double fault in {function}").by(INSTRUCTION)],
    },
    // rust/kernel/lib.rs.
    Beginning {
        word: "rust_kernel: panicked",
        not: &[],
        kinds: &[Kind::new("rust_kernel: panicked", "{text} in {function}")
            .then(&["{text*}"])
            .by(CALLS)
            .skip(&["*rust_begin_unwind*"])],
    },
    // report_bug, lib/bug.c.
    Beginning {
        word: "kernel BUG",
        not: &[],
        kinds: &[
            Kind::new("kernel BUG at mm/usercopy.c", "BUG: bad usercopy in {function}")
                .by(CALLS)
                .skip(&["*usercopy*", "*__check*"]),
            Kind::new("kernel BUG at lib/list_debug.c", "BUG: corrupted list in {function}")
                .by(CALLS)
                .coarse(BAD_ACCESS),
            Kind::new("kernel BUG at ", "kernel BUG in {function}")
                .by(FAULT)
                .skip(&["skb_*"]),
        ],
    },
    Beginning {
        word: "Kernel BUG",
        not: &[],
        kinds: &[Kind::new("Kernel BUG {text*}", "kernel BUG {text}")],
    },
    // mm/slub.c.
    Beginning {
        word: "BUG kmalloc-",
        not: &[],
        kinds: &[Kind::new("BUG kmalloc-*: Object already free", "BUG: Object already free")],
    },
    Beginning {
        word: "divide error: ",
        not: &[],
        kinds: &[Kind::new("divide error: ", "divide error in {function}").by(INSTRUCTION)],
    },
    // So spelled by some kernels of 5.8 (9d06c4027f21).
    Beginning {
        word: "divide_error: ",
        not: &[],
        kinds: &[Kind::new("divide_error: ", "divide error in {function}").by(INSTRUCTION)],
    },
    Beginning {
        word: "invalid opcode: ",
        not: &[],
        kinds: &[Kind::new("invalid opcode: ", "invalid opcode in {function}").by(INSTRUCTION)],
    },
    // lib/ubsan.c.
    Beginning {
        word: "UBSAN:",
        not: &[],
        kinds: &[
            Kind::new("UBSAN: Undefined behaviour in", "UBSAN: undefined-behaviour in {function}")
                .by(CALLS)
                .skip(UBSAN),
            Kind::new("UBSAN: array-index-out-of-bounds in", "UBSAN: array-index-out-of-bounds in {function}")
                .by(CALLS)
                .skip(UBSAN)
                .coarse(BAD_ACCESS),
            Kind::new("UBSAN: {kind*} in", "UBSAN: {kind} in {function}")
                .by(CALLS)
                .skip(UBSAN),
        ],
    },
    // net/core/dev.c, fs/open.c, fs/super.c.
    Beginning {
        word: "unregister_netdevice: waiting for",
        not: &[],
        kinds: &[Kind::new("unregister_netdevice: waiting for * to become free", "unregister_netdevice: waiting for DEV to become free").without_trace()],
    },
    Beginning {
        word: "VFS: Close: file count is 0",
        not: &[],
        kinds: &[Kind::new("VFS: Close: file count is 0", "VFS: Close: file count is zero (use-after-free)").without_trace()],
    },
    Beginning {
        word: "VFS: Busy inodes after unmount",
        not: &[],
        kinds: &[Kind::new("VFS: Busy inodes after unmount", "VFS: Busy inodes after unmount (use-after-free)").without_trace()],
    },
    // die, arch/arm64/kernel/traps.c and arch/arm/kernel/traps.c; do_alignment,
    // arch/arm/mm/alignment.c.
    Beginning {
        word: "Internal error:",
        not: &[],
        kinds: &[Kind::new("Internal error:", "Internal error in {function}")
            .by(FAULT)
            .coarse(BAD_ACCESS)],
    },
    Beginning {
        word: "Unhandled fault:",
        not: &[],
        kinds: &[Kind::new("Unhandled fault:", "Unhandled fault in {function}")
            .by(FAULT)
            .coarse(BAD_ACCESS)],
    },
    Beginning {
        word: "Alignment trap:",
        not: &[],
        kinds: &[Kind::new("Alignment trap:", "Alignment trap in {function}").by(FAULT)],
    },
    // kernel/watchdog_perf.c, kernel/watchdog.c.
    Beginning {
        word: "Watchdog detected hard LOCKUP",
        not: &[],
        kinds: &[Kind::new("Watchdog detected hard LOCKUP", "BUG: hard lockup in {function}")
            .by(FAULT)
            .choose(HandedOut)
            .coarse(STALL)],
    },
    // Other exceptions: s390x (die, arch/s390/kernel/dumpstack.c), riscv64 (do_trap_error,
    // arch/riscv/kernel/traps.c), ppc64 (die, arch/powerpc/kernel/traps.c).
    Beginning {
        word: " ilc:",
        not: &[],
        kinds: &[Kind::new("{kind*}: {code} ilc:# [", "{kind} in {function}").by(FAULT)],
    },
    Beginning {
        word: "Oops - ",
        not: &[],
        kinds: &[Kind::new("Oops - {kind*} [#", "{kind} in {function}").by(FAULT)],
    },
    Beginning {
        word: "Bad kernel stack pointer",
        not: &[],
        kinds: &[Kind::new("Bad kernel stack pointer", "bad kernel stack pointer in {function}").by(FAULT)],
    },
    // Hardware: arch/x86/kernel/cpu/mce/core.c, arch/arm64/kernel/traps.c,
    // arch/powerpc/kernel/mce.c. A corrected error is not an exception.
    Beginning {
        word: "Machine Check Exception:",
        not: &[],
        kinds: &[Kind::new("Machine Check Exception:", "machine check exception")
            .coarse(&["hardware error"])
            .without_trace()],
    },
    Beginning {
        word: "SError Interrupt on CPU",
        not: &[],
        kinds: &[Kind::new("SError Interrupt on CPU", "SError interrupt in {function}")
            .by(FAULT)
            .coarse(&["hardware error"])],
    },
    Beginning {
        word: "achine check in",
        not: &["Machine check injector"],
        kinds: &[Kind::new("(M|m)achine check in", "machine check exception in {function}")
            .by(FAULT)
            .coarse(&["hardware error"])],
    },
];
