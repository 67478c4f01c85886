//! Functions that are never to blame: they report a fault, or do for any caller what he asked.
//!
//! A pattern matches a whole name, without what the compiler appended after a dot. To add a
//! function, add a line to its family.

use crate::signature::pattern;

/// Returns true if the function is never to blame, or is in `more`.
pub fn is_never_blamed(name: &str, more: &[&'static str]) -> bool {
    let mut all = NEVER_BLAMED.iter().flat_map(|family| family.iter());
    all.any(|pattern| pattern::is_match(pattern, name))
        || more.iter().any(|pattern| pattern::is_match(pattern, name))
}

/// The families.
const NEVER_BLAMED: [&[&str]; 14] = [
    SANITIZERS, REPORTS, TRAPS, PRINTING, ALLOCATORS, PAGES, LOCKS, ATOMICS, MEMORY, CONTAINERS,
    WAITING, DEVICES, USB, ACCESS,
];

/// The compiler's checks of memory accesses, and their reports (mm/kasan, mm/kmsan, kernel/kcsan).
const SANITIZERS: &[&str] = &[
    "*__sanitizer*",
    "*__asan*",
    "*kasan*",
    "*hwasan*",
    "*__msan*",
    "*kmsan*",
    "*kcsan_setup_watchpoint*",
    "*check_memory_region*",
    "*check_heap_object*",
    "*check_object*",
    "*read_word_at_a_time*",
    "*(read|write)_once_*nocheck*",
    "*print_address_description*",
    "*__fortify_report*",
];

/// Functions that report, and walk the stack for it (kernel/panic.c, lib/bug.c,
/// lib/dump_stack.c, lib/debugobjects.c, kernel/locking/lockdep.c).
const REPORTS: &[&str] = &[
    "*panic*",
    "*report_bug*",
    "*fixup_bug*",
    "*print_report*",
    "*print_usage_bug*",
    "*print_tainted*",
    "get_taint",
    "*show_stack*",
    "*dump_stack*",
    "*walk_stack*",
    "*dump_backtrace*",
    "*arch_stack_walk*",
    "*stack_trace_save*",
    "*stack_trace_consume_entry*",
    "*warn_slowpath*",
    "*warn_alloc*",
    "*warn_bogus*",
    "*__warn*",
    "*assertfail*",
    "*debug_object*",
    "*(timer|work)_is_static_object*",
    "*print_unlock*",
    "*imbalance_bug*",
    "*lockdep*",
    "*perf_trace*",
    "*trace_(hard|soft)irq*",
    "*__phys_addr*",
];

/// The way from a fault to its report (arch/*/kernel/traps.c, arch/*/mm/fault.c, entry code).
const TRAPS: &[&str] = &[
    "*invalid_op*",
    "*do_error*",
    "*_trap",
    "*do_trap*",
    "*program_check_exception*",
    "*program_check_common*",
    "*do_(kernel|translation)_fault*",
    "*do_mem_abort*",
    "*el1_abort*",
    "*el1h_64_sync*",
    "*_indirect_thunk_*",
];

/// Formatting and printing (kernel/printk, lib/vsprintf.c, lib/hexdump.c, drivers/base/core.c).
const PRINTING: &[&str] = &[
    "*string*",
    "*pointer*",
    "*snprintf*",
    "*scnprintf*",
    "*k(asprintf|vasprintf)*",
    "*printk*",
    "*va_format*",
    "*dev_(info|notice|warn|err|alert|crit|emerg)*",
    "*hex_dump_to_buffer*",
    "*print_hex_dump*",
];

/// Allocators (mm/slub.c, mm/vmalloc.c, mm/page_alloc.c, lib/idr.c).
const ALLOCATORS: &[&str] = &[
    "*alloc_page*",
    "*(malloc|zalloc|calloc)*",
    "*krealloc*",
    "*kmem_cache*",
    "*allocate_slab*",
    "*__alloc_frozen_pages_noprof*",
    "*slab_*",
    "(kfree|kvfree)",
    "*kfree_skb*",
    "*ida_free*",
];

/// The page cache (mm/filemap.c, mm/truncate.c, lib/xarray.c).
const PAGES: &[&str] = &[
    "*folio_(alloc|unlock)*",
    "*filemap_alloc_folio*",
    "*__filemap_get_folio*",
    "*find_or_create_page*",
    "*do_read_cache_folio*",
    "*read_cache_page*",
    "*pagecache_get_page*",
    "*grab_cache_page_write_begin*",
    "lock_page*",
    "unlock_page*",
    "*xas_(start|load|find)*",
    "*find_lock_entries*",
    "*truncate_inode_pages_range*",
];

/// Locks (kernel/locking).
const LOCKS: &[&str] = &[
    "*lock_(acquire|release|class)*",
    "*mark_lock*",
    "*(reacquire|mark)_held_locks*",
    "*bh_(enable|disable)*",
    "*raw_spin_rq*",
    "*spin_(lock|trylock|unlock)*",
    "*read_(lock|trylock|unlock)*",
    "*write_(lock|trylock|unlock)*",
    "down",
    "*down_(read|write|trylock)*",
    "*up_(read|write)*",
    "(mutex|__mutex|rt_mutex)_*",
    "*owner_on_cpu*",
    "*osq_(lock|unlock)*",
    "*seqprop_assert*",
    "*lock_timer_base*",
];

/// Atomic operations, bits and reference counts (include/linux/atomic, lib/refcount.c).
const ATOMICS: &[&str] = &[
    "*atomic_(dec|inc|read|set|or|xor|and|add|sub|fetch|xchg|cmpxchg|try)*",
    "*atomic64_(dec|inc|read|set|or|xor|and|add|sub|fetch|xchg|cmpxchg|try)*",
    "*(set|clear|change|test)_bit*",
    "refcount_*",
    "kref_*",
    "*ref_tracker*",
];

/// Copies and comparisons of memory and strings, also to and from user memory (lib/string.c,
/// lib/usercopy.c, lib/iov_iter.c), and checksums.
const MEMORY: &[&str] = &[
    "*mem(cpy|cmp|set|chr|move|dup)*",
    "*str(cmp|ncmp|cpy|lcpy|ncpy|scpy|len|str|nstr|nlen|chr|dup|ndup)*",
    "*copy_(to|from)_(user|iter)*",
    "*copy_page_(to|from)_iter*",
    "*copy_folio_to_iter*",
    "copyin",
    "copyout",
    "*(put|get)_user*",
    "*might_(fault|sleep)*",
    "*__might_resched*",
    "*extract_(user|iter)_to_sg*",
    "crc#*",
    "*crc_itu_t*",
];

/// Lists, trees and tables (lib/list_debug.c, lib/rbtree.c, lib/rhashtable.c, lib/klist.c).
const CONTAINERS: &[&str] = &[
    "*list_(add|del|replace|move|splice)*",
    "rb_*",
    "__rb_*",
    "klist_*",
    "*rhashtable_lookup*",
];

/// Work queues, timers and waiting (kernel/workqueue.c, kernel/time/timer.c, kernel/sched).
const WAITING: &[&str] = &[
    "*__wake_up*",
    "*del_timer*",
    "*__timer_delete_sync*",
    "*sk_stop_timer_sync*",
    "*__mod_timer*",
    "*flush_work*",
    "*__cancel_work_timer*",
    "*cancel_work_sync*",
    "*try_to_grab_pending*",
    "*(drain|destroy)_workqueue*",
    "*queue_work*",
    "*queue_delayed_work*",
    "*insert_work*",
    "*finish_wait*",
    "*kthread_stop*",
    "complete",
    "*wait_for_completion*",
    "*cleanup_srcu_struct*",
];

/// The device model, sysfs and inodes: what is to blame is the driver or file system that gave
/// them up (drivers/base, fs/sysfs, lib/kobject.c, fs/inode.c, fs/dcache.c).
const DEVICES: &[&str] = &[
    "*kobject_*",
    "*add_uevent_var*",
    "*get_device_parent*",
    "*device_(add|del|unregister|destroy|release|for_each_child|remove_file)*",
    "put_device",
    "*devres_release_all*",
    "*hwrng_unregister*",
    "*i2c_del_adapter*",
    "*__unregister_client*",
    "*rollback_registered*",
    "*unregister_netdev*",
    "*sysfs_remove*",
    "*tty_unregister_device*",
    "iput",
    "iput_final",
    "ihold",
    "*drop_nlink*",
    "*dput*",
];

/// Requests to USB devices (drivers/usb/core).
const USB: &[&str] = &[
    "*dummy_urb_enqueue*",
    "*usb_kill_(urb|anchored_urbs)*",
    "*usb_control_msg*",
    "*usb_hcd_submit_urb*",
    "*usb_submit_urb*",
];

/// Access to the registers of devices (lib/iomap.c, lib/logic_pio.c).
const ACCESS: &[&str] = &["*(read|write)(b|w|l|q)", "*logic_(in|out)*"];

/// Returns true for a function between the fault and the jump into the capture kernel, by which
/// a stack in a dump begins; a stack in the log does not have them.
pub fn is_of_crash_path(name: &str) -> bool {
    let mut all = CRASH_PATH.iter();
    all.any(|pattern| pattern::is_match(pattern, name))
}

/// kernel/kexec_core.c, arch/*/kernel/machine_kexec*.c, dumpstack.c, traps.c, arch/*/mm/fault.c,
/// drivers/tty/sysrq.c.
const CRASH_PATH: &[&str] = &[
    "*crash_kexec*",
    "*crash_setup_regs*",
    "machine_kexec*",
    "machine_crash_shutdown*",
    "*oops_(begin|end|exit)*",
    "(die|__die|die_addr|die_kernel_fault|__die_kernel_fault)",
    "*no_context*",
    "*page_fault_oops*",
    "*kernelmode_fixup_or_oops*",
    "*bad_area*",
    "*do_(user|kern)_addr_fault*",
    "*do_page_fault*",
    "exc_*",
    "asm_exc_*",
    "*handle_bug*",
    "(bad_page_fault|data_access_common_virt|instruction_access_common_virt)",
    "(pgm_check_handler|__do_pgm_check|do_protection_exception|do_dat_exception)",
    "(handle_exception|do_trap_unknown|ret_from_exception)",
    "el1h_64_*",
    "el1_*",
];
