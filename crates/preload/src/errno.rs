//! The C library's `errno`.

use std::ffi::c_int;

/// Returns the calling thread's `errno`.
#[inline]
pub(crate) fn errno() -> c_int {
    // SAFETY: belongs to this thread.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
#[inline]
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: belongs to this thread.
    unsafe { *libc::__errno_location() = code };
}
