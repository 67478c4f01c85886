//! Ways to the function to blame, coarser titles, and functions that are not to blame, which several
//! kinds share.

use super::Step::{Calls, FirstInstruction, Heading, Instruction, Line, Trap};
use super::Way;

/// The call trace.
pub const CALLS: &[Way] = &[&[Heading, Calls]];
/// The instruction, then the call trace.
pub const FAULT: &[Way] = &[&[Instruction, Heading, Calls]];
/// Only the instruction: the stack that follows is another one.
pub const INSTRUCTION: &[Way] = &[&[Instruction]];
/// A warning since 4.x is a trap; before, and without it, there is only the trace.
pub const WARNED: &[Way] = &[&[Trap, Calls], &[Heading, Calls]];
/// The function in the line, then the call trace.
pub const KASAN: &[Way] = &[&[Line("BUG: KASAN: * in {function}"), Heading, Calls]];
/// The function in the line, then the trace without a heading.
pub const KFENCE: &[Way] = &[&[Line("BUG: KFENCE: * in {function}"), Calls]];
/// Where the value was used, then where it was created.
pub const KMSAN: &[Way] = &[&[
    Calls,
    Line("(Local variable|Uninit was created at:)"),
    Calls,
]];
/// The stack under the timer interrupt that noticed the stall. Since 6.1 (e73dfe30930b), a CPU that
/// notices its own prints only what it interrupted.
pub const STALLED: &[Way] = &[
    &[Line("apic_timer_interrupt"), Instruction, Calls],
    &[
        Line(
            "(apic_timer_interrupt|Exception stack|el1h_64_irq|el1_irq|--- interrupt: |do_ext_irq|ret_from_exception)",
        ),
        Calls,
    ],
    &[FirstInstruction, Heading, Calls],
    // Before that, of a kthread that did not run, its stack and that of the CPU that it waits for
    // (rcu_check_gp_kthread_starvation, kernel/rcu/tree_stall.h).
    &[
        Line("RCU GP kthread last ran"),
        Heading,
        Instruction,
        Heading,
        Calls,
    ],
];
/// The function that releases a lock, then the call trace.
pub const UNLOCKED: &[Way] = &[&[Line("{pc}{function}"), Heading, Calls]];
/// The function that takes a lock, after that which holds the other.
pub const ACQUIRED: &[Way] = &[&[
    Line("at: {pc?}{function}"),
    Line("at: {pc?}{function}"),
    Calls,
]];
/// The stack by which a lock was first taken where interrupts are on.
pub const BECAME_UNSAFE: &[Way] = &[&[Line("which became * at:"), Calls]];
/// The stack by which a page was allocated.
pub const LAST_ALLOCATED: &[Way] = &[&[Line("page last allocated"), Calls]];
/// The stack by which memory was allocated.
pub const LEAKED: &[Way] = &[&[Line("backtrace(:| (crc)"), Calls]];

/// Coarser titles: any access to memory that may not be accessed.
pub const BAD_ACCESS: &[&str] = &["bad-access in {function}"];
/// Any wrong free.
pub const BAD_FREE: &[&str] = &["invalid-free in {function}"];
/// A CPU that loops.
pub const STALL: &[&str] = &["stall in {function}"];
/// A task that does not go on.
pub const HANG: &[&str] = &["hang in {function}"];
/// A stack that is too small.
pub const OVERFLOW: &[&str] = &["stack-overflow in {function}"];

/// Functions that send a driver's request to a USB device.
pub const USB_MESSAGES: &[&str] = &[
    "*alloc_skb*",
    "*usb_submit_urb*",
    "*usb_start_wait_urb*",
    "*usb_(bulk|interrupt|control)_msg*",
];
/// Readers of RCU for their callers.
pub const RCU_USERS: &[&str] = &["*rcu*", "*kmem*", "*slab*"];
/// Reports of undefined behaviour.
pub const UBSAN: &[&str] = &["*ubsan*", "*overflow*"];
/// The lock of a socket.
pub const SOCKET_LOCK: &[&str] = &["*lock_sock*", "*release_sock*"];

/// A lock held where none may be (kernel/locking/lockdep.c).
pub const LOCK_KEPT: &[&str] = &[
    "leaving the kernel with locks still held",
    "at: {pc?}{function}",
];
