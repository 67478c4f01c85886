//! Permanent halt of the other threads of a process that ends.
//!
//! At the end of a process the kernel ends its threads wherever they are (exit_group). They are
//! halted a moment earlier, so that none of them accesses freed memory: a signal that the C
//! library does not let programs block brings each thread into two instructions that use no
//! memory.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, RawDir, open, readlinkat_raw};
use rustix::io::Errno;
use rustix::thread::gettid;
use rustix::time::Timespec;

use super::HeldSignals;
use super::system;
use crate::c_string_buf::CStringBuf;
use crate::engine::now;
use crate::machine::{read_text, status};

mod signal;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use signal::{HALTED, SIGNAL};
#[cfg(target_arch = "x86_64")]
use x86_64::catch_signal;

/// Other architectures have no handler that halts a thread: the end of a process is the plain one
/// unless it has one thread.
#[cfg(not(target_arch = "x86_64"))]
fn catch_signal() -> bool {
    false
}

/// True once a thread has begun to halt the others.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Halts all threads except this one. Returns true if that succeeded and the memory of this
/// process has no other user, neither another process nor the kernel. The process must end
/// afterwards in either case, without waiting for any thread.
///
/// Nothing is halted if a debugger, which would see the signals, traces this process, if a
/// seccomp filter, which may kill it, applies to it, or if another thread has begun to halt
/// threads. `within` is the time limit of the whole call.
pub(super) fn halt_others(_held: &HeldSignals, within: Duration) -> bool {
    let deadline = now() + within;
    !is_watched()
        && !BEGUN.swap(true, Ordering::AcqRel)
        && catch_signal()
        && halt(deadline)
        && !others_need_memory(deadline)
}

/// Returns the number of threads of this process.
pub(super) fn count_threads() -> usize {
    status(["Threads:"]).map_or(usize::MAX, |[count]| count as usize)
}

/// True if a debugger traces this process, or a seccomp filter applies to it.
fn is_watched() -> bool {
    status(["TracerPid:", "Seccomp:"]) != Some([0, 0])
}

/// Signals all other threads until all have halted; returns false after the deadline.
fn halt(deadline: Duration) -> bool {
    const FIRST_WAIT: Duration = Duration::from_millis(1);
    let mut rounds = 0;
    let mut wait = FIRST_WAIT;
    while now() < deadline {
        // The order matters: halted threads stay in the list. A thread that was created while
        // the list was read, and is missing in it, is in the next one.
        let halted = HALTED.load(Ordering::Acquire);
        let Some(others) = count_others() else {
            return false;
        };
        rounds = if others == halted { rounds + 1 } else { 0 };
        if rounds == 2 {
            return true;
        }
        if rounds == 0 {
            signal_others();
            // With a limit: one of them may have ended instead.
            wait_for(others, deadline.min(now() + wait));
            let is_late = HALTED.load(Ordering::Acquire) < others;
            if is_late && wait == FIRST_WAIT && has_workers_of_kernel() {
                return false;
            }
            wait *= 2;
        }
    }
    false
}

fn wait_for(halted: u32, deadline: Duration) {
    const STEP: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000,
    };
    while HALTED.load(Ordering::Acquire) < halted && now() < deadline {
        let _ = rustix::thread::nanosleep(&STEP);
    }
}

/// True if the kernel has threads of its own in this process, for io_uring or vhost: signals do
/// not halt them.
fn has_workers_of_kernel() -> bool {
    /// PF_IO_WORKER and PF_USER_WORKER of include/linux/sched.h.
    const WORKERS: u64 = 0x10 | 0x4000;
    let mut found = false;
    for_each_thread(|thread| {
        let mut text = [0; 1024];
        let stat = read_of_thread(thread, "stat", &mut text).unwrap_or_default();
        // The fields after the name, which may contain anything: state, parent, group, session,
        // terminal, foreground group, flags.
        let flags = stat.rsplit(')').next().unwrap_or_default();
        let flags = flags.split_ascii_whitespace().nth(6);
        found = flags
            .and_then(|flags| flags.parse().ok())
            .is_some_and(|flags: u64| flags & WORKERS != 0);
        !found
    });
    found
}

/// Returns the number of other threads of this process. The first thread is not counted once it
/// has ended: it stays in the list until the process ends.
fn count_others() -> Option<u32> {
    let mut threads = 0_u32;
    for_each_thread(|_| {
        threads += 1;
        true
    })?;
    let mut text = [0; 4096];
    let first = read_text(c"/proc/self/status", &mut text).ok()?;
    let ended = u32::from(first.lines().any(|line| line.starts_with("State:\tZ")));
    threads.checked_sub(1 + ended)
}

fn signal_others() {
    let this = gettid().as_raw_nonzero().get();
    let process = system::process() as usize;
    for_each_thread(|thread| {
        if thread != this {
            let _ = system::call(libc::SYS_tgkill, [process, thread as usize, SIGNAL]);
        }
        true
    });
}

/// True if private memory would still be used although no thread runs.
fn others_need_memory(deadline: Duration) -> bool {
    let mut needed = false;
    let has_children = has_children();
    let threads = for_each_thread(|thread| {
        needed = holds_robust_locks(thread) || has_children && has_child_in_memory(thread);
        !needed && now() < deadline
    });
    needed || threads.is_none() || handles_page_faults(deadline) || now() >= deadline
}

/// True if a thread (0 for this one) holds locks that the kernel releases at its end: the
/// kernel finds them by a list that may pass through private memory (exit_robust_list of
/// kernel/futex). The list of a running thread may change at any time.
pub(super) fn holds_robust_locks(thread: i32) -> bool {
    let (mut head, mut length) = (0_usize, 0_usize);
    let arguments = [
        thread as usize,
        (&raw mut head).addr(),
        (&raw mut length).addr(),
    ];
    if system::call(libc::SYS_get_robust_list, arguments).is_err() {
        return true;
    }
    if head == 0 {
        return false;
    }
    // SAFETY: the list that the C library registered for the thread begins with a pointer,
    // which points to itself if the list is empty. It exists as long as the thread does.
    let first = unsafe { ptr::with_exposed_provenance::<usize>(head).read() };
    first != head
}

/// True if any thread of this process has a child, of any kind.
fn has_children() -> bool {
    let any = libc::P_ALL as usize;
    let how = (libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL) as usize;
    system::call(libc::SYS_waitid, [any, 0, 0, how]) != Err(Errno::CHILD)
}

/// True if a child of a thread runs in this memory (CLONE_VM without CLONE_THREAD).
fn has_child_in_memory(thread: i32) -> bool {
    const KCMP_VM: usize = 1;
    const LIST: usize = 4096;
    let mut list = [0; LIST];
    let process = system::process() as usize;
    let children = read_of_thread(thread, "children", &mut list);
    let Some(children) = children.filter(|children| children.len() < LIST) else {
        return true;
    };
    children.split_ascii_whitespace().any(|child| {
        let child = child.parse::<usize>().unwrap_or(process);
        // 0 means the same memory; a child that has ended is not an error.
        match system::call(libc::SYS_kcmp, [process, child, KCMP_VM]) {
            Ok(order) => order == 0,
            Err(error) => error != Errno::SRCH,
        }
    })
}

/// True if this process handles page faults of its own memory: freeing that memory would wait
/// until one of the halted threads has read the event (userfaultfd_remove of fs/userfaultfd.c).
fn handles_page_faults(deadline: Duration) -> bool {
    let mut found = false;
    let seen = for_each_name(c"/proc/thread-self/fd", |folder, descriptor| {
        let mut target = [0; 64];
        found = readlinkat_raw(folder, descriptor, &mut target[..])
            .is_ok_and(|length| target.get(..length) == Some(b"anon_inode:[userfaultfd]"));
        !found && now() < deadline
    });
    found || seen.is_none()
}

/// Reads a file of a thread's directory in /proc.
fn read_of_thread<'a>(thread: i32, name: &str, room: &'a mut [u8]) -> Option<&'a str> {
    let path = CStringBuf::<48>::format(format_args!("/proc/self/task/{thread}/{name}"))?;
    read_text(path.as_c_str(), room).ok()
}

/// Calls `see` for each thread of this process until it returns false. `None` if they cannot be
/// listed.
fn for_each_thread(mut see: impl FnMut(i32) -> bool) -> Option<()> {
    for_each_name(c"/proc/self/task", |_, name| {
        let number = name.to_str().ok().and_then(|name| name.parse().ok());
        number.is_none_or(&mut see)
    })
}

/// Calls `see` for each name in a directory, with the directory, until it returns false. `None`
/// if the directory cannot be read.
fn for_each_name(path: &CStr, mut see: impl FnMut(BorrowedFd<'_>, &CStr) -> bool) -> Option<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty()).ok()?;
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&folder, &mut room);
    while let Some(entry) = entries.next() {
        if !see(folder.as_fd(), entry.ok()?.file_name()) {
            break;
        }
    }
    Some(())
}
