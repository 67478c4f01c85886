//! Blocked signals of a thread.

use std::ffi::c_int;
use std::ptr;

/// Guard; blocks all signals of the calling thread while it lives. Threads and processes
/// started meanwhile inherit the mask.
///
/// It uses the system call itself: `pthread_sigmask` leaves the signals open with which the C
/// library cancels threads, and the caller's stack must not be unwound while others work on it.
#[derive(Debug)]
pub struct HeldSignals {
    before: u64,
}

impl HeldSignals {
    /// Blocks all signals.
    pub fn hold() -> Self {
        Self {
            before: change(libc::SIG_SETMASK, Some(u64::MAX)),
        }
    }

    /// Returns the signals that were blocked before, bit 0 for signal 1.
    pub fn before(&self) -> u64 {
        self.before
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        change(libc::SIG_SETMASK, Some(self.before));
    }
}

/// Returns the signals that the calling thread blocks, bit 0 for signal 1.
pub fn held_signals() -> u64 {
    change(libc::SIG_BLOCK, None)
}

/// Changes the blocked signals, and returns the previous ones.
fn change(how: c_int, mask: Option<u64>) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the kernel reads and writes numbers of the given size.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            mask.as_ref().map_or(ptr::null(), ptr::from_ref),
            &raw mut before,
            size_of::<u64>(),
        )
    };
    before
}
