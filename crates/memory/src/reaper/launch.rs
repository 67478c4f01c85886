//! The way from the caller to the reaper's program: two processes in the caller's memory.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::socket::last_error;
use super::{ArgumentText, COMMAND, Held, MAX_HELD};
use crate::c_string_buf::CStringBuf;

const STACK: usize = 32 << 10;
const PATH: usize = 4096;
/// The program's name, its command, the socket, what is held, the report, and a NULL.
const ARGUMENTS: usize = 1 + COMMAND.len() + 1 + MAX_HELD + 1 + 1;

/// What the processes on the way to the reaper need while they run in this process's memory.
/// In a mapping of its own: where the program is not ready in time it stays, since a
/// process may still stand on its stacks.
pub(super) struct Launch {
    arguments: [*const c_char; ARGUMENTS],
    environment: [*const c_char; 1],
    program: [u8; PATH],
    /// `r` and a path.
    report: [u8; PATH + 1],
    words: [ArgumentText; 1 + MAX_HELD],
    /// Descriptors that the program is to have.
    kept: [RawFd; 1 + MAX_HELD],
    kept_count: usize,
    /// 1 until the last process on the way has left this memory (CLONE_CHILD_CLEARTID).
    alive: AtomicU32,
}

/// It, and behind it the stacks of the last process and of the one before.
pub(super) struct Mapped(*mut Launch);

const MAPPED: usize = size_of::<Launch>().next_multiple_of(STACK) + 2 * STACK;

impl Launch {
    pub(super) fn map(
        program: &CStr,
        held: &[Held],
        report: Option<&CStr>,
        socket: RawFd,
    ) -> Result<Mapped, Errno> {
        if held.len() > MAX_HELD {
            return Err(Errno::TOOBIG);
        }
        // SAFETY: a new mapping, where the kernel has room.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                MAPPED,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let mapped = Mapped(base.cast());
        // A child of a fork at this moment would keep it for good.
        // SAFETY: nobody uses it yet.
        let _ = unsafe { madvise(base, MAPPED, Advice::LinuxDontFork) };
        // SAFETY: the mapping is of zeros, which all fields may be, and this
        // function's alone.
        let launch = unsafe { &mut *mapped.0 };
        copy(program.to_bytes_with_nul(), &mut launch.program)?;
        let mut count = 0;
        let mut add = |argument: *const c_char| {
            if let Some(place) = launch.arguments.get_mut(count) {
                *place = argument;
            }
            count += 1;
        };
        add(launch.program.as_ptr().cast());
        COMMAND.iter().for_each(|word| add(word.as_ptr()));
        let words = std::iter::once(CStringBuf::format(format_args!("s{socket}")))
            .chain(held.iter().map(|held| held.word()));
        for (place, word) in launch.words.iter_mut().zip(words) {
            *place = word.ok_or(Errno::NAMETOOLONG)?;
            add(place.as_c_str().as_ptr());
        }
        if let Some(report) = report {
            launch.report[0] = b'r';
            copy(report.to_bytes_with_nul(), &mut launch.report[1..])?;
            add(launch.report.as_ptr().cast());
        }
        let descriptors = held.iter().filter_map(|held| match held {
            Held::Descriptor(descriptor) => Some(*descriptor),
            Held::SystemV(_) => None,
        });
        for (place, descriptor) in launch
            .kept
            .iter_mut()
            .zip(std::iter::once(socket).chain(descriptors))
        {
            *place = descriptor;
            launch.kept_count += 1;
        }
        Ok(mapped)
    }
}

impl Mapped {
    /// The end of one of the stacks.
    fn top(launch: *mut Launch, number: usize) -> *mut c_void {
        launch
            .wrapping_byte_add(MAPPED - number * STACK)
            .cast::<c_void>()
    }

    /// A child that no `wait` but this one finds, which starts the reaper as
    /// its child and ends: so the reaper is nobody's.
    pub(super) fn clone_twice(&self) -> Result<(), Errno> {
        const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK;
        // SAFETY: the stack is used by nobody else, and the child runs while this thread waits
        // for its end: it may use the thread's memory.
        let child = unsafe { libc::clone(begin, Self::top(self.0, 0), FLAGS, self.0.cast()) };
        if child < 0 {
            return Err(last_error());
        }
        loop {
            // SAFETY: it waits for a process. One without a signal for its end is
            // found by __WCLONE alone.
            let status = unsafe {
                libc::syscall(
                    libc::SYS_wait4,
                    child,
                    ptr::null_mut::<c_int>(),
                    libc::__WCLONE,
                    ptr::null_mut::<c_void>(),
                )
            };
            if status >= 0 || last_error() != Errno::INTR {
                return Ok(());
            }
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `map` made it.
        let alive = unsafe { (*self.0).alive.load(Ordering::Acquire) };
        if alive == 0 {
            // SAFETY: nobody uses it any more: the first process has ended, and the last has
            // left this memory or never was.
            let _ = unsafe { munmap(self.0.cast(), MAPPED) };
        }
    }
}

/// The child: its end leaves the reaper to init.
extern "C" fn begin(launch: *mut c_void) -> c_int {
    let launch = launch.cast::<Launch>();
    // SAFETY: `alive` is in the mapping, which stays until the kernel has written 0 there.
    // The reaper-to-be shares this memory until it executes its program, and may not be
    // waited for; what it uses of it is in the mapping.
    unsafe {
        (*launch).alive.store(1, Ordering::Release);
        let status = libc::clone(
            become_reaper,
            Mapped::top(launch, 1),
            libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID,
            launch.cast(),
            ptr::null_mut::<c_int>(),
            ptr::null_mut::<c_void>(),
            (*launch).alive.as_ptr(),
        );
        if status < 0 {
            (*launch).alive.store(0, Ordering::Release);
        }
    }
    0
}

/// The reaper-to-be, in the caller's memory, beside the caller. Its descriptors are its own.
extern "C" fn become_reaper(launch: *mut c_void) -> c_int {
    // SAFETY: it stays until this process has left it, and nobody changes it.
    let launch = unsafe { &*launch.cast::<Launch>() };
    // SAFETY: system calls on this process's descriptors, and on strings and lists that end
    // as they must. Where the kernel has no such call (before 5.11) the reaper
    // itself closes what it should not have.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            0,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        for descriptor in launch.kept.iter().take(launch.kept_count) {
            libc::syscall(libc::SYS_fcntl, *descriptor, libc::F_SETFD, 0);
        }
        libc::syscall(
            libc::SYS_execve,
            launch.program.as_ptr(),
            launch.arguments.as_ptr(),
            launch.environment.as_ptr(),
        );
    }
    127
}

fn copy(text: &[u8], room: &mut [u8]) -> Result<(), Errno> {
    let room = room.get_mut(..text.len()).ok_or(Errno::NAMETOOLONG)?;
    room.copy_from_slice(text);
    Ok(())
}
