//! The C library's names.
//!
//! # Safety
//! All are those of the C library, and ask of their callers what it asks.
#![allow(clippy::missing_safety_doc)]

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::atomic::Ordering;

use bigiron_memory::Errno;
use bigiron_memory::call::{self, Answer, Request};
use bigiron_memory::policy::Policy;

use crate::state::{STATE, THRESHOLD, known_policy, policy};
use crate::trace::{self, Kind};

/// Whether a call of so many bytes is the plain one.
#[inline(always)]
pub(crate) fn is_small(length: usize) -> bool {
    length < THRESHOLD.load(Ordering::Relaxed)
}

/// The system call, as the C library makes it.
macro_rules! plain {
    ($number:expr, $($argument:expr),*) => {
        // SAFETY: what the program asked for.
        unsafe { libc::syscall($number, $($argument),*) }
    };
}

/// Makes a call with helpers: its result, and `errno` as after the plain call.
#[cold]
fn shared<T: Copy>(kind: Kind, policy: &Policy, call: impl FnOnce() -> Answer<T>) -> Result<T, ()> {
    let before = errno();
    let answer = call();
    trace::write_call(policy, kind, answer.outcome);
    set(before, answer.result)
}

fn set<T>(before: c_int, result: Result<T, Errno>) -> Result<T, ()> {
    let code = match &result {
        Ok(_) => before,
        Err(error) => error.raw_os_error(),
    };
    set_errno(code);
    result.map_err(|_| ())
}

pub(crate) fn errno() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(code: c_int) {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = code };
}

fn status(result: Result<(), ()>) -> c_int {
    result.map_or(-1, |()| 0)
}

fn pointer(result: Result<usize, ()>) -> *mut c_void {
    result.map_or(libc::MAP_FAILED, std::ptr::with_exposed_provenance_mut)
}

/// mmap(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    if !is_small(length)
        && let Some(policy) = policy()
    {
        let request = Request {
            address: address.expose_provenance(),
            length,
            protection,
            flags,
            descriptor,
            offset,
        };
        return pointer(shared(Kind::Mmap, policy, || {
            call::mmap(policy, &STATE, &request)
        }));
    }
    let result: c_long = plain!(
        libc::SYS_mmap,
        address,
        length,
        protection,
        flags,
        descriptor,
        offset
    );
    std::ptr::with_exposed_provenance_mut(result as usize)
}

/// mmap64(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the same call, where all offsets are of 64 bits.
    unsafe { mmap(address, length, protection, flags, descriptor, offset) }
}

/// munmap(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    if !is_small(length)
        && let Some(policy) = policy()
    {
        return status(shared(Kind::Munmap, policy, || {
            STATE.note_unmapped(address.addr(), length);
            call::munmap(policy, address.addr(), length)
        }));
    }
    plain!(libc::SYS_munmap, address, length) as c_int
}

/// madvise(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    if matches!(advice, libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE)
        && !is_small(length)
        && let Some(policy) = policy()
    {
        return status(shared(Kind::Madvise, policy, || {
            call::madvise(policy, address.addr(), length, advice)
        }));
    }
    plain!(libc::SYS_madvise, address, length, advice) as c_int
}

/// mlock(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(address: *const c_void, length: usize) -> c_int {
    if !is_small(length)
        && let Some(policy) = policy()
    {
        return status(shared(Kind::Mlock, policy, || {
            call::mlock(policy, address.addr(), length)
        }));
    }
    plain!(libc::SYS_mlock, address, length) as c_int
}

/// mlock2(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(address: *const c_void, length: usize, flags: c_uint) -> c_int {
    if flags == 0 {
        // SAFETY: the same call; the C library makes this one too.
        return unsafe { mlock(address, length) };
    }
    plain!(libc::SYS_mlock2, address, length, flags) as c_int
}

/// mlockall(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    match policy() {
        Some(policy) => status(shared(Kind::Mlockall, policy, || {
            call::mlockall(policy, &STATE, flags)
        })),
        None => {
            let result = plain!(libc::SYS_mlockall, flags) as c_int;
            if result == 0 && known_policy().is_some() {
                call::note_mlockall(&STATE, flags);
            }
            result
        }
    }
}

/// munlockall(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munlockall() -> c_int {
    let before = errno();
    status(set(before, call::munlockall(&STATE)))
}

/// shmget(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmget(key: libc::key_t, size: usize, flags: c_int) -> c_int {
    let id = plain!(libc::SYS_shmget, key, size, flags) as c_int;
    if id != -1
        && let Some(policy) = known_policy()
    {
        call::note_shmget(policy, &STATE, id, key, size, flags);
    }
    id
}

/// shmat(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    let shared_by = if STATE.is_small_segment(id) {
        None
    } else {
        policy()
    };
    match shared_by {
        Some(policy) => pointer(shared(Kind::Shmat, policy, || {
            call::shmat(policy, &STATE, id, address.addr(), flags)
        })),
        None => {
            let result: c_long = plain!(libc::SYS_shmat, id, address, flags);
            std::ptr::with_exposed_provenance_mut(result as usize)
        }
    }
}

/// shmdt(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    let shared_by = if STATE.has_large() { policy() } else { None };
    match shared_by {
        Some(policy) => status(shared(Kind::Shmdt, policy, || {
            call::shmdt(policy, &STATE, address.addr())
        })),
        None => plain!(libc::SYS_shmdt, address) as c_int,
    }
}

/// shmctl(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmctl(id: c_int, command: c_int, segment: *mut libc::shmid_ds) -> c_int {
    if matches!(command, libc::SHM_LOCK | libc::IPC_RMID)
        && !STATE.is_small_segment(id)
        && let Some(policy) = policy()
    {
        return shared(Kind::Shmctl, policy, || {
            call::shmctl(policy, &STATE, id, command, segment.addr())
        })
        .unwrap_or(-1);
    }
    plain!(libc::SYS_shmctl, id, command, segment) as c_int
}
