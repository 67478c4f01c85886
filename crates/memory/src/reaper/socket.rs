//! Messages between caller and reaper. They use system calls instead of the C library's
//! functions, which are cancellation points.

use std::ffi::{c_long, c_void};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};
use std::{io, ptr};

use rustix::io::Errno;

/// Returns two connected sockets, close-on-exec.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut pair = [-1; 2];
    // SAFETY: the kernel writes two descriptors.
    let status = unsafe {
        libc::syscall(
            libc::SYS_socketpair,
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            0,
            pair.as_mut_ptr(),
        )
    };
    if status != 0 {
        return Err(last_error());
    }
    // SAFETY: both are new, and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])) })
}

/// Sends bytes; without SIGPIPE if the other side is closed.
pub(super) fn send(socket: RawFd, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: the kernel reads the bytes.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket,
            bytes.as_ptr(),
            bytes.len(),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            ptr::null::<c_void>(),
            0,
        )
    };
    if sent == bytes.len() as c_long {
        Ok(())
    } else {
        Err(Errno::PIPE)
    }
}

/// Receives bytes and returns their number, 0 if the other side is closed. ETIMEDOUT if none
/// arrive within `limit`.
pub(super) fn receive(socket: RawFd, buffer: &mut [u8], limit: Duration) -> Result<usize, Errno> {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut time = rustix::time::Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut wanted = libc::pollfd {
            fd: socket,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one descriptor, one time, no mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                &mut wanted,
                1,
                &mut time,
                ptr::null::<c_void>(),
                0,
            )
        };
        match count {
            0 => return Err(Errno::TIMEDOUT),
            1.. => return take(socket, buffer),
            _ if last_error() == Errno::INTR => {}
            _ => return Err(last_error()),
        }
    }
}

fn take(socket: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        // SAFETY: the kernel fills the buffer.
        let count = unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                socket,
                buffer.as_mut_ptr(),
                buffer.len(),
                0,
                ptr::null_mut::<c_void>(),
                ptr::null_mut::<c_void>(),
            )
        };
        match usize::try_from(count) {
            Ok(count) => return Ok(count),
            Err(_) if last_error() == Errno::INTR => {}
            Err(_) => return Err(last_error()),
        }
    }
}

/// Returns the error of the last system call.
pub(super) fn last_error() -> Errno {
    io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::IO, Errno::from_raw_os_error)
}
