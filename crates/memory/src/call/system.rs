//! System calls by number, with a program's own arguments.
//!
//! The C library's functions are not used: in the preload library they would be the replaced
//! ones.

use std::ffi::{c_int, c_long};
use std::ptr::with_exposed_provenance_mut as pointer;

use rustix::io::Errno;

use crate::plain;

/// Makes one system call. Changes this thread's `errno` on failure.
pub(crate) fn call<const N: usize>(number: c_long, arguments: [usize; N]) -> Result<usize, Errno> {
    let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
    // SAFETY: the memory behind the arguments is the caller's own, or belongs to a program
    // whose call the caller passes on.
    let result = unsafe {
        libc::syscall(
            number,
            argument(0),
            argument(1),
            argument(2),
            argument(3),
            argument(4),
            argument(5),
        )
    };
    checked(result)
}

fn checked(result: c_long) -> Result<usize, Errno> {
    if result == -1 {
        let code = std::io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(code.unwrap_or(libc::EIO)));
    }
    Ok(result as usize)
}

pub(crate) fn mmap(arguments: &plain::Mmap) -> Result<usize, Errno> {
    // SAFETY: the program's own call.
    checked(unsafe { plain::mmap(arguments) })
}

pub(crate) fn mlock(address: usize, length: usize) -> Result<(), Errno> {
    call(libc::SYS_mlock, [address, length]).map(drop)
}

pub(crate) fn mlock2(address: usize, length: usize, flags: u32) -> Result<(), Errno> {
    call(libc::SYS_mlock2, [address, length, flags as usize]).map(drop)
}

pub(crate) fn mlockall(flags: c_int) -> Result<(), Errno> {
    call(libc::SYS_mlockall, [flags as usize]).map(drop)
}

pub(crate) fn munlockall() -> Result<(), Errno> {
    call(libc::SYS_munlockall, []).map(drop)
}

pub(crate) fn munmap(address: usize, length: usize) -> Result<(), Errno> {
    call(libc::SYS_munmap, [address, length]).map(drop)
}

/// Removes a mapping that was just created.
pub(crate) fn undo_mapping(address: usize, length: usize) {
    let _ = munmap(address, length);
}

pub(crate) fn mprotect(address: usize, length: usize, protection: c_int) -> Result<(), Errno> {
    call(libc::SYS_mprotect, [address, length, protection as usize]).map(drop)
}

pub(crate) fn madvise(address: usize, length: usize, advice: c_int) -> Result<(), Errno> {
    call(libc::SYS_madvise, [address, length, advice as usize]).map(drop)
}

pub(crate) fn shmget(key: c_int, size: usize, flags: c_int) -> Result<c_int, Errno> {
    checked(plain::shmget(key, size, flags)).map(|id| id as c_int)
}

pub(crate) fn shmat(id: c_int, address: usize, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: the program's own call.
    checked(unsafe { plain::shmat(id, pointer(address), flags) })
}

pub(crate) fn shmdt(address: usize) -> Result<(), Errno> {
    // SAFETY: the program's own call.
    checked(unsafe { plain::shmdt(pointer(address)) }).map(drop)
}

/// shmctl(2). `argument` depends on the command: an address, or nothing.
pub(crate) fn shmctl(id: c_int, command: c_int, argument: usize) -> Result<c_int, Errno> {
    // SAFETY: the program's own call, or that of `segment`.
    checked(unsafe { plain::shmctl(id, command, pointer(argument)) }).map(|result| result as c_int)
}

/// Returns the kernel's data of a segment (IPC_STAT).
pub(crate) fn segment(id: c_int) -> Result<libc::shmid_ds, Errno> {
    // SAFETY: all fields are numbers, for which zeros are valid.
    let mut segment: libc::shmid_ds = unsafe { std::mem::zeroed() };
    shmctl(id, libc::IPC_STAT, (&raw mut segment).addr())?;
    Ok(segment)
}

/// Returns this process's id in its PID namespace.
pub(crate) fn process() -> u32 {
    rustix::process::getpid().as_raw_pid().unsigned_abs()
}
