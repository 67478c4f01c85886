//! Launch of the reaper's program, by two processes in the caller's memory.

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
/// The program's name, its command, the socket, the held objects, the report, and a NULL.
const ARGUMENTS: usize = 1 + COMMAND.len() + 1 + MAX_HELD + 1 + 1;

/// Data for the processes between the caller and the reaper, which run in the caller's memory.
/// It has its own mapping, which stays if the program does not start in time, since a process
/// may still run on its stacks.
pub(super) struct Launch {
    arguments: [*const c_char; ARGUMENTS],
    environment: [*const c_char; 1],
    program: [u8; PATH],
    /// The letter `r` and a path.
    report: [u8; PATH + 1],
    words: [ArgumentText; 1 + MAX_HELD],
    /// Descriptors that the program inherits.
    kept: [RawFd; 1 + MAX_HELD],
    kept_count: usize,
    /// 1 until the last of these processes has left the caller's memory (CLONE_CHILD_CLEARTID).
    alive: AtomicU32,
}

/// The mapping: a [`Launch`], followed by the stacks of the two processes.
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
        // SAFETY: creates a new mapping at an address that the kernel chooses.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                MAPPED,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let mapped = Mapped(base.cast());
        // Otherwise the child of a concurrent fork would keep it forever. SAFETY: the mapping
        // is not in use yet.
        let _ = unsafe { madvise(base, MAPPED, Advice::LinuxDontFork) };
        // SAFETY: the mapping contains zeros, which are valid for all fields, and belongs to
        // this function.
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
    /// Returns the upper end of one of the stacks.
    fn top(launch: *mut Launch, number: usize) -> *mut c_void {
        launch
            .wrapping_byte_add(MAPPED - number * STACK)
            .cast::<c_void>()
    }

    /// Creates a child that only the `wait` in this function finds. The child starts the reaper
    /// as its own child and exits, so that the reaper has no parent in this program.
    pub(super) fn clone_twice(&self) -> Result<(), Errno> {
        const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK;
        // SAFETY: the stack is otherwise unused. This thread waits for the end of the child,
        // which may therefore use the thread's memory.
        let child = unsafe { libc::clone(begin, Self::top(self.0, 0), FLAGS, self.0.cast()) };
        if child < 0 {
            return Err(last_error());
        }
        loop {
            // SAFETY: waits for a process. A child without an exit signal is found only with
            // __WCLONE.
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
        // SAFETY: `map` created it.
        let alive = unsafe { (*self.0).alive.load(Ordering::Acquire) };
        if alive == 0 {
            // SAFETY: the mapping is no longer in use: the first process has ended, and the
            // last has left this memory or was never created.
            let _ = unsafe { munmap(self.0.cast(), MAPPED) };
        }
    }
}

/// Entry point of the child; its end leaves the reaper to init.
extern "C" fn begin(launch: *mut c_void) -> c_int {
    let launch = launch.cast::<Launch>();
    // SAFETY: `alive` is in the mapping, which stays until the kernel has written 0 there. The
    // future reaper shares this memory until it executes its program, and uses only data in the
    // mapping.
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

/// Entry point of the future reaper, which runs in the caller's memory next to the caller, with
/// its own descriptors.
extern "C" fn become_reaper(launch: *mut c_void) -> c_int {
    // SAFETY: the mapping stays until this process has left it, and does not change.
    let launch = unsafe { &*launch.cast::<Launch>() };
    // SAFETY: system calls on this process's descriptors, and on terminated strings and lists.
    // If the kernel lacks close_range or its flag (before 5.11), the reaper closes the other
    // descriptors itself.
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
