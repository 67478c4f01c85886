//! Version, error texts, and a check of the system.

use std::ffi::{CStr, c_char, c_int};

use crate::boundary::enter;

/// The meaning of each error of this library, with its remedy.
const MEANINGS: [(c_int, &CStr); 22] = [
    (0, c"no error"),
    (libc::EPERM, c"not permitted: locking needs RLIMIT_MEMLOCK above 0 or CAP_IPC_LOCK, destroying needs the segment's owner"),
    (libc::ENOENT, c"no segment or file has this name, key or id"),
    (libc::EINTR, c"a signal is about to end the process"),
    (libc::EIO, c"the device cannot be read"),
    (libc::E2BIG, c"options are set that this version of the library does not support"),
    (libc::ERANGE, c"a page is on a node beyond the array"),
    (libc::EBADF, c"the descriptor is not open for this"),
    (libc::EAGAIN, c"the memory cannot be locked: raise RLIMIT_MEMLOCK"),
    (libc::ENOMEM, c"no memory: nothing is mapped there, memory or huge pages ran out, or a limit (RLIMIT_MEMLOCK, RLIMIT_AS, the cgroup's) is reached"),
    (libc::EACCES, c"permission denied"),
    (libc::EFAULT, c"access to the memory would raise SIGSEGV or SIGBUS: the mapping does not permit it, or it is beyond the end of a file"),
    (libc::EBUSY, c"the memory or file is in use"),
    (libc::EEXIST, c"a segment or file with this name or key exists"),
    (libc::EINVAL, c"a value is not allowed, a size field is not set, or the memory cannot be populated (before Linux 5.14: none can)"),
    (libc::EMFILE, c"too many open files in this process: raise RLIMIT_NOFILE"),
    (libc::ENOSPC, c"no space: a limit of System V segments (kernel.shmmni, shmall), of huge pages or of the file system is reached"),
    (libc::ENOSYS, c"the system does not support the call"),
    (libc::EOPNOTSUPP, c"not supported for this kind of memory"),
    (libc::ECANCELED, c"the progress function ended the operation"),
    (libc::EHWPOISON, c"the memory has a hardware error"),
    (libc::ENOTRECOVERABLE, c"a bug in this library: please report it with its messages on standard error"),
];

/// Returns the library's version, such as "0.1.0". The string is constant.
#[unsafe(no_mangle)]
pub extern "C" fn bigiron_mem_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the meaning of an error of this library, with its remedy. `error` is the return
/// value of a function, negative or not. The string is constant: it is never freed, and the
/// function is thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn bigiron_mem_strerror(error: c_int) -> *const c_char {
    let code = error.wrapping_abs();
    let known = MEANINGS.iter().find(|(known, _)| *known == code);
    known
        .map_or(c"a system error: see errno(3)", |(_, text)| text)
        .as_ptr()
}

/// Checks that the kernel and the machine support this library: returns 0, or the error of a
/// page that was populated as a test.
#[unsafe(no_mangle)]
pub extern "C" fn bigiron_mem_works() -> c_int {
    enter(crate::memory::try_a_page)
}
