//! The replaced functions of the C library.
//!
//! # Safety
//! The requirements are those of the C library's functions.
#![allow(clippy::missing_safety_doc)]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use bigiron_memory::Errno;
use bigiron_memory::call::{self, Answer, Request};
use bigiron_memory::plain;
use bigiron_memory::policy::Policy;

use crate::cancellation::uncancelled;
use crate::errno::{errno, set_errno};
use crate::state::{STATE, THRESHOLD, known_policy, policy};
use crate::trace::{self, Kind};

/// True if a call of this length is passed to the kernel unchanged.
#[inline(always)]
pub(crate) fn is_small(length: usize) -> bool {
    length < THRESHOLD.load(Ordering::Relaxed)
}

/// Makes the system call as the C library does.
macro_rules! plain {
    ($number:expr, $($argument:expr),*) => {
        // SAFETY: the program's own arguments.
        unsafe { libc::syscall($number, $($argument),*) }
    };
}

/// Makes a call with helpers. Returns its result, with `errno` as after the plain call; `None` if
/// the policy or the stack permits only the plain call.
fn shared<T: Copy>(
    kind: Kind,
    call: impl FnOnce(&'static Policy) -> Answer<T>,
) -> Option<Result<T, ()>> {
    uncancelled(|| {
        let policy = policy()?;
        let before = errno();
        let answer = call(policy);
        trace::write_call(policy, kind, answer.outcome);
        Some(set(before, answer.result))
    })
}

fn set<T>(before: c_int, result: Result<T, Errno>) -> Result<T, ()> {
    let code = match &result {
        Ok(_) => before,
        Err(error) => error.raw_os_error(),
    };
    set_errno(code);
    result.map_err(|_| ())
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
    let request = Request {
        address: address.expose_provenance(),
        length,
        protection,
        flags,
        descriptor,
        offset,
    };
    if !is_small(length)
        && let Some(result) = shared(Kind::Mmap, |policy| call::mmap(policy, &STATE, &request))
    {
        return pointer(result);
    }
    // SAFETY: the program's own arguments.
    let result = unsafe { plain::mmap(&request.arguments()) };
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
    // SAFETY: the same call; all offsets have 64 bits.
    unsafe { mmap(address, length, protection, flags, descriptor, offset) }
}

/// munmap(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    let call = |policy| {
        STATE.note_unmapped(address.addr(), length);
        call::munmap(policy, address.addr(), length)
    };
    if !is_small(length)
        && let Some(result) = shared(Kind::Munmap, call)
    {
        return status(result);
    }
    plain!(libc::SYS_munmap, address, length) as c_int
}

/// madvise(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    if matches!(advice, libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE)
        && !is_small(length)
        && let Some(result) = shared(Kind::Madvise, |policy| {
            call::madvise(policy, address.addr(), length, advice)
        })
    {
        return status(result);
    }
    plain!(libc::SYS_madvise, address, length, advice) as c_int
}

/// mlock(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(address: *const c_void, length: usize) -> c_int {
    if !is_small(length)
        && let Some(result) = shared(Kind::Mlock, |policy| {
            call::mlock(policy, address.addr(), length)
        })
    {
        return status(result);
    }
    plain!(libc::SYS_mlock, address, length) as c_int
}

/// mlock2(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(address: *const c_void, length: usize, flags: c_uint) -> c_int {
    if flags == 0 {
        // SAFETY: the same call, as in the C library.
        return unsafe { mlock(address, length) };
    }
    plain!(libc::SYS_mlock2, address, length, flags) as c_int
}

/// mlockall(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    match shared(Kind::Mlockall, |policy| {
        call::mlockall(policy, &STATE, flags)
    }) {
        Some(result) => status(result),
        None => {
            let result = plain!(libc::SYS_mlockall, flags) as c_int;
            if result == 0 {
                uncancelled(|| known_policy().map(|_| call::note_mlockall(&STATE, flags)));
            }
            result
        }
    }
}

/// munlockall(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munlockall() -> c_int {
    let before = errno();
    status(uncancelled(|| set(before, call::munlockall(&STATE))))
}

/// shmget(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmget(key: libc::key_t, size: usize, flags: c_int) -> c_int {
    let id = plain::shmget(key, size, flags) as c_int;
    if id != -1 {
        uncancelled(|| {
            known_policy().map(|policy| call::note_shmget(policy, &STATE, id, key, size, flags))
        });
    }
    id
}

/// shmat(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    if !STATE.is_small_segment(id)
        && let Some(result) = shared(Kind::Shmat, |policy| {
            call::shmat(policy, &STATE, id, address.addr(), flags)
        })
    {
        return pointer(result);
    }
    // SAFETY: the program's own arguments.
    let result = unsafe { plain::shmat(id, address, flags) };
    std::ptr::with_exposed_provenance_mut(result as usize)
}

/// shmdt(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    if STATE.has_large()
        && let Some(result) = shared(Kind::Shmdt, |policy| {
            call::shmdt(policy, &STATE, address.addr())
        })
    {
        return status(result);
    }
    // SAFETY: the program's own argument.
    unsafe { plain::shmdt(address) as c_int }
}

/// shmctl(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmctl(id: c_int, command: c_int, segment: *mut libc::shmid_ds) -> c_int {
    if matches!(command, libc::SHM_LOCK | libc::IPC_RMID)
        && !STATE.is_small_segment(id)
        && let Some(result) = shared(Kind::Shmctl, |policy| {
            call::shmctl(policy, &STATE, id, command, segment.addr())
        })
    {
        return result.unwrap_or(-1);
    }
    // SAFETY: the program's own arguments.
    unsafe { plain::shmctl(id, command, segment.cast()) as c_int }
}
