//! System calls, made directly: in a process with the preload library, calls of the C library's
//! functions would be accelerated twice.

use std::ffi::c_long;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::Errno;

use super::request::MAX_NODES;
use crate::plain;
use crate::region::Region;

/// Converts the return value of libc::syscall.
fn checked(status: c_long) -> Result<c_long, Errno> {
    if status != -1 {
        return Ok(status);
    }
    let error = io::Error::last_os_error();
    Err(error
        .raw_os_error()
        .map_or(Errno::IO, Errno::from_raw_os_error))
}

pub fn shmget(key: i32, bytes: usize, flags: i32) -> Result<i32, Errno> {
    checked(plain::shmget(key, bytes, flags)).map(|id| id as i32)
}

/// shmat(2), at an address that the kernel chooses, or over the mapping `at`.
pub fn shmat(id: i32, at: Option<Region>, flags: i32) -> Result<usize, Errno> {
    let (address, flags) = at.map_or((ptr::null_mut(), flags), |at| {
        (at.pointer(), flags | libc::SHM_REMAP)
    });
    // SAFETY: creates a new mapping; one that it replaces belongs to the caller.
    checked(unsafe { plain::shmat(id, address, flags) }).map(|address| address as usize)
}

pub fn shmdt(region: Region) -> Result<(), Errno> {
    // SAFETY: the caller attached the region, and no longer uses it.
    checked(unsafe { plain::shmdt(region.pointer()) }).map(drop)
}

/// shmctl(2) with IPC_RMID, SHM_LOCK or SHM_UNLOCK.
pub fn shmctl(id: i32, command: i32) -> Result<(), Errno> {
    // SAFETY: these commands take no argument.
    checked(unsafe { plain::shmctl(id, command, ptr::null_mut()) }).map(drop)
}

pub fn shm_state(id: i32) -> Result<libc::shmid_ds, Errno> {
    let mut state = MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: the kernel fills the structure, for which zeros are also valid.
    unsafe {
        checked(plain::shmctl(id, libc::IPC_STAT, state.as_mut_ptr().cast()))?;
        Ok(state.assume_init())
    }
}

pub fn mlock(region: Region) -> Result<(), Errno> {
    // SAFETY: changes no contents of memory.
    checked(unsafe { libc::syscall(libc::SYS_mlock, region.pointer(), region.length()) }).map(drop)
}

/// Locks pages as they are faulted in.
pub fn mlock_on_fault(region: Region) -> Result<(), Errno> {
    const MLOCK_ONFAULT: i32 = 1;
    // SAFETY: as above.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mlock2,
            region.pointer(),
            region.length(),
            MLOCK_ONFAULT,
        )
    })
    .map(drop)
}

pub fn munlock(region: Region) -> Result<(), Errno> {
    // SAFETY: as above.
    checked(unsafe { libc::syscall(libc::SYS_munlock, region.pointer(), region.length()) })
        .map(drop)
}

/// Sets the policy of `region`, MPOL_BIND or MPOL_INTERLEAVE, to take pages from `nodes`.
pub fn mbind(region: Region, policy: i32, nodes: &[usize]) -> Result<(), Errno> {
    const WORD: usize = u64::BITS as usize;
    let mut mask = [0_u64; MAX_NODES / WORD];
    for node in nodes {
        if let Some(word) = mask.get_mut(node / WORD) {
            *word |= 1 << (node % WORD);
        }
    }
    // SAFETY: the kernel reads the mask.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mbind,
            region.pointer(),
            region.length(),
            policy,
            mask.as_ptr(),
            MAX_NODES + 1,
            0,
        )
    })
    .map(drop)
}

/// Returns the node of each page; a negative number for a page that is not present.
pub fn nodes_of(pages: &[usize]) -> Result<Vec<i32>, Errno> {
    let mut nodes = vec![0_i32; pages.len()];
    // SAFETY: the kernel reads as many addresses as it writes statuses; without target nodes no
    // page is moved.
    checked(unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            ptr::null::<i32>(),
            nodes.as_mut_ptr(),
            0,
        )
    })?;
    Ok(nodes)
}

/// Links a file without a name to a path.
pub fn link(file: BorrowedFd<'_>, path: &std::path::Path) -> Result<(), Errno> {
    use rustix::fs::{AtFlags, CWD, linkat};
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, open, CWD, path, AtFlags::SYMLINK_FOLLOW)
}
