//! Checks that a thread's stack has enough space for this library. The smallest stacks of
//! threads and signal handlers suffice for the plain call, but not for helpers: on such a stack
//! all calls are the plain ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// Stack space for a call in bytes; twice the maximum used.
const ROOM: usize = 64 << 10;
/// Minimum size of the guard below a stack: the smallest page size.
const PAGE: usize = 4 << 10;

/// Size in bytes of the first thread's stack that is always available: this stack grows on
/// demand.
const KNOWN: usize = 1 << 20;

/// Address of the first thread's stack at program start; 0 if its limit is too low.
static FIRST: AtomicUsize = AtomicUsize::new(0);

/// Records the address of the first thread's stack.
pub(crate) fn prepare() {
    let most = getrlimit(Resource::Stack).current;
    if most.is_none_or(|most| most >= 2 * KNOWN as u64) {
        // The program's first function may begin slightly above.
        FIRST.store(here() + ROOM, Ordering::Relaxed);
    }
}

/// True if this thread's stack has enough space. Preserves `errno`.
pub(crate) fn has_room() -> bool {
    let here = here();
    let first = FIRST.load(Ordering::Relaxed);
    if here <= first && first - here < KNOWN - ROOM {
        return true;
    }
    // SAFETY: belongs to this thread.
    let before = unsafe { *libc::__errno_location() };
    let all = (1..=ROOM / PAGE).all(|page| is_readable(here.wrapping_sub(page * PAGE)));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = before };
    all
}

#[inline(always)]
fn here() -> usize {
    let local = 0_u8;
    (&raw const local).addr()
}

/// True if an address is readable. The system call reads it first and then rejects the invalid
/// argument (rt_sigprocmask in kernel/signal.c), so nothing changes. Seccomp filters allow this
/// call.
fn is_readable(address: usize) -> bool {
    const NOTHING: libc::c_int = -1;
    // SAFETY: the kernel reads eight bytes if possible.
    let status = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NOTHING,
            address & !7,
            std::ptr::null::<u64>(),
            size_of::<u64>(),
        )
    };
    // SAFETY: belongs to this thread.
    status == 0 || unsafe { *libc::__errno_location() } != libc::EFAULT
}
