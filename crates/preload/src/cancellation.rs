//! Asynchronous cancellation of threads (`PTHREAD_CANCEL_ASYNCHRONOUS`), which may interrupt this
//! library at any instruction.
//!
//! The C library unwinds a cancelled thread's stack. A function with landing pads has a table of
//! its calls, and Rust's personality routine fails at any other instruction (`find_eh_action` in
//! library/std/src/sys/personality/dwarf/eh.rs): the C library then aborts the program. So the
//! functions that programs call have no landing pads: they call only functions that do not unwind.
//! Everything below them runs with the C library's signal for cancellation blocked, so that a
//! cancellation takes place when the signal is unblocked. pthread_setcanceltype does not suffice:
//! cancellation points such as close(2) act on a deferred cancellation, and glibc 2.36 waits
//! there forever for a signal that is already under way (nptl/cancellation.c).

use std::ffi::c_int;
use std::ptr;

use crate::errno::{errno, set_errno};

/// glibc's SIGCANCEL as a mask: signal 32 (sysdeps/unix/sysv/linux/internal-signals.h).
const SIGCANCEL: u64 = 1 << 31;

/// Runs `work`, during which this thread is not cancelled.
#[inline]
pub(crate) fn uncancelled<R>(work: impl FnOnce() -> R) -> R {
    let before = change(libc::SIG_BLOCK, SIGCANCEL);
    let result = run(work);
    if before & SIGCANCEL == 0 {
        change(libc::SIG_UNBLOCK, SIGCANCEL);
    }
    result
}

/// Changes the signals that this thread blocks, and returns the previous ones. A system call,
/// because pthread_sigmask leaves this signal alone. Preserves `errno`: a seccomp filter may deny
/// the call.
#[inline]
fn change(how: c_int, mask: u64) -> u64 {
    let code = errno();
    let mut before = 0_u64;
    // SAFETY: the kernel reads and writes numbers of the given size.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const mask,
            ptr::from_mut(&mut before),
            size_of::<u64>(),
        )
    };
    set_errno(code);
    before
}

/// Runs `work`. The ABI makes a panic abort here, so the caller needs no landing pad.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // only Rust calls it
extern "C" fn run<R>(work: impl FnOnce() -> R) -> R {
    work()
}
