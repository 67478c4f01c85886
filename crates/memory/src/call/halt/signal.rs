//! The signal that halts threads, and the number of those that it halted.

use std::sync::atomic::AtomicU32;

/// The signal with which the C library changes the user of all threads (SIGSETXID of
/// sysdeps/unix/sysv/linux/internal-signals.h of glibc).
pub(super) const SIGNAL: usize = 33;

/// Number of halted threads.
pub(super) static HALTED: AtomicU32 = AtomicU32::new(0);
