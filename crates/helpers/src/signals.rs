//! The signals that a thread holds back.

use std::ffi::c_int;
use std::ptr;

/// All signals of the calling thread, held back while this lives. What is started meanwhile
/// inherits that.
///
/// By the system call itself: `pthread_sigmask` leaves those signals open by which the C library
/// cancels threads, and the caller's stack must not be unwound while others work on it.
#[derive(Debug)]
pub struct HeldSignals {
    before: u64,
}

impl HeldSignals {
    /// Holds them back from now on.
    pub fn hold() -> Self {
        Self {
            before: change(libc::SIG_SETMASK, Some(u64::MAX)),
        }
    }

    /// Those that were held back before, bit 0 for signal 1.
    pub fn before(&self) -> u64 {
        self.before
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        change(libc::SIG_SETMASK, Some(self.before));
    }
}

/// The signals that the calling thread holds back, bit 0 for signal 1.
pub fn held_signals() -> u64 {
    change(libc::SIG_BLOCK, None)
}

/// Changes the signals that are held back, and gives those from before.
fn change(how: c_int, mask: Option<u64>) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the kernel reads and writes numbers of the size that it is told.
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
