//! What the library tells of itself.

use std::ffi::{CStr, c_char, c_int};

use crate::boundary::enter;

/// What errors of this library mean, and what to do about them.
const MEANINGS: [(c_int, &CStr); 22] = [
    (0, c"no error"),
    (libc::EPERM, c"not permitted: locking needs RLIMIT_MEMLOCK above 0 or CAP_IPC_LOCK, destroying needs the segment's owner"),
    (libc::ENOENT, c"no segment or file of that name, key or number"),
    (libc::EINTR, c"a signal is about to end the process"),
    (libc::EIO, c"the device could not be read"),
    (libc::E2BIG, c"options are set that this version of the library does not know"),
    (libc::ERANGE, c"a page comes from a node beyond the places"),
    (libc::EBADF, c"the descriptor is not open for this"),
    (libc::EAGAIN, c"the memory could not be locked: raise RLIMIT_MEMLOCK"),
    (libc::ENOMEM, c"no memory: nothing is mapped there, memory or huge pages ran out, or a limit (RLIMIT_MEMLOCK, RLIMIT_AS, the cgroup's) is reached"),
    (libc::EACCES, c"permission denied"),
    (libc::EFAULT, c"touching the memory would raise SIGSEGV or SIGBUS: not that access, or behind the end of a file"),
    (libc::EBUSY, c"in use"),
    (libc::EEXIST, c"a segment or file of that name or key exists"),
    (libc::EINVAL, c"a value is not allowed, a size field is not set, or the memory cannot be populated (before Linux 5.14: none can)"),
    (libc::EMFILE, c"too many open files in this process: raise RLIMIT_NOFILE"),
    (libc::ENOSPC, c"no room: a limit of System V segments (kernel.shmmni, shmall), huge pages or the file system is reached"),
    (libc::ENOSYS, c"this system lacks the call"),
    (libc::EOPNOTSUPP, c"not possible for this kind of memory"),
    (libc::ECANCELED, c"the progress function asked to stop"),
    (libc::EHWPOISON, c"the memory has a hardware error"),
    (libc::ENOTRECOVERABLE, c"a mistake of this library: please report it, with what it wrote on standard error"),
];

/// The library's version, as "0.1.0". The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn bigiron_mem_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What an error of this library means, and what to do about it; `error` is what a function
/// gave, negative or not. The text is constant: it is never freed, and any thread may ask.
#[unsafe(no_mangle)]
pub extern "C" fn bigiron_mem_strerror(error: c_int) -> *const c_char {
    let code = error.wrapping_abs();
    let known = MEANINGS.iter().find(|(known, _)| *known == code);
    known
        .map_or(c"an error of the system: see errno(3)", |(_, text)| text)
        .as_ptr()
}

/// Whether this kernel and machine can do what the library is for: 0, or the error of a page that was
/// populated for trial.
#[unsafe(no_mangle)]
pub extern "C" fn bigiron_mem_works() -> c_int {
    enter(crate::memory::try_a_page)
}
