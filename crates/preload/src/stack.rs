//! Whether a thread's stack has room for what is done here. The smallest that a thread or a
//! signal handler may have is enough for the plain call, and not for helpers: on such
//! a stack all calls are the plain ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// Bytes that a call may take; twice what the deepest takes.
const ROOM: usize = 64 << 10;
/// No guard below a stack is smaller.
const PAGE: usize = 4 << 10;

/// Of the first thread's stack, what is known to be there: it grows by itself.
const KNOWN: usize = 1 << 20;

/// Where that stack was when the program began; 0 where it may not grow as far.
static FIRST: AtomicUsize = AtomicUsize::new(0);

/// Notes the first thread's stack.
pub(crate) fn prepare() {
    let most = getrlimit(Resource::Stack).current;
    if most.is_none_or(|most| most >= 2 * KNOWN as u64) {
        // The program's first function may begin a little above.
        FIRST.store(here() + ROOM, Ordering::Relaxed);
    }
}

/// Whether this thread's stack goes on far enough. Leaves `errno` alone.
pub(crate) fn has_room() -> bool {
    let here = here();
    let first = FIRST.load(Ordering::Relaxed);
    if here <= first && first - here < KNOWN - ROOM {
        return true;
    }
    // SAFETY: this thread's own.
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

/// Whether there is memory at an address. A system call looks there first, and then
/// refuses what it is asked (rt_sigprocmask of kernel/signal.c), so that nothing changes;
/// filters of system calls let it pass.
fn is_readable(address: usize) -> bool {
    const NOTHING: libc::c_int = -1;
    // SAFETY: the kernel reads eight bytes, if it can.
    let status = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NOTHING,
            address & !7,
            std::ptr::null::<u64>(),
            size_of::<u64>(),
        )
    };
    // SAFETY: this thread's own.
    status == 0 || unsafe { *libc::__errno_location() } != libc::EFAULT
}
