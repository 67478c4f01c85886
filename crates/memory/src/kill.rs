//! The end of another process: helpers free a part of its private memory while it exits.
//!
//! A killed process frees its memory with one processor (exit_mmap of mm/mmap.c).
//! process_mrelease (Linux 5.15) frees anonymous and other private memory of a dying process
//! from elsewhere, concurrently (mm/oom_kill.c). It finds the memory only between the signal and
//! the process's exit_mm (kernel/exit.c), a few microseconds. A pidfd reports the end after
//! that. The calls therefore come from the process that sends the signal, from before it on:
//! a call that begins in time continues until no memory is left.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::param::page_size;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Default number of helpers. On two processors more of them are not faster (`bench/killed`).
pub const HELPERS: usize = 2;

/// Number of process_mrelease on all architectures but Alpha and MIPS; the crate libc lacks it
/// for musl on riscv64.
const PROCESS_MRELEASE: libc::c_long = 448;

/// Result of [`kill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Killed {
    /// Private memory that the process had, in bytes; 0 if unknown.
    pub private_bytes: u64,
    /// Time from the signal until the process had ended and its memory was free.
    pub elapsed: Duration,
    /// Number of helpers that freed a part of the memory. 0 if all came too late, if the memory
    /// has other users, or if the kernel is older than 5.15: then the process has freed all.
    pub helpers: usize,
}

/// Sends SIGKILL to a process, frees its private memory by up to `helpers` threads while it
/// exits, and waits until it has ended. Its parent can then wait for it.
///
/// Errors: ESRCH if there is no such process, EINVAL or ENOENT for the id of a thread, EPERM if
/// this process may not kill it, ENOSYS before Linux 5.3.
pub fn kill(process: Pid, helpers: usize) -> Result<Killed, Errno> {
    let pidfd = pidfd_open(process, PidfdFlags::empty())?;
    // An error for lack of permission must come before helpers start to call.
    rustix::process::test_kill_process(process)?;
    let private_bytes = private_bytes(process).unwrap_or(0);
    if helpers > 0 {
        let_others_run(process);
    }
    let race = Race {
        pidfd: pidfd.as_fd(),
        ready: AtomicUsize::new(0),
        sent: AtomicBool::new(false),
    };
    let (result, helpers) = thread::scope(|scope| {
        let others: Vec<_> = (1..helpers)
            .filter_map(|_| {
                thread::Builder::new()
                    .spawn_scoped(scope, || race.help())
                    .ok()
            })
            .collect();
        while race.ready.load(Ordering::Acquire) < others.len() {
            thread::yield_now();
        }
        let began = Instant::now();
        let sent = pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
        race.sent.store(true, Ordering::Release);
        let own = sent.is_ok() && helpers > 0 && release(pidfd.as_fd()).is_ok();
        let helped = others
            .into_iter()
            .map(|other| usize::from(other.join().unwrap_or(false)));
        let helpers = usize::from(own) + helped.sum::<usize>();
        (sent.map(|()| began), helpers)
    });
    let began = result?;
    wait(pidfd.as_fd());
    Ok(Killed {
        private_bytes,
        elapsed: began.elapsed(),
        helpers,
    })
}

/// What the helpers share.
struct Race<'a> {
    pidfd: BorrowedFd<'a>,
    /// Number of helpers that have begun to call.
    ready: AtomicUsize,
    sent: AtomicBool,
}

impl Race<'_> {
    /// Calls until the signal is there. Returns true if a part of the memory was freed.
    fn help(&self) -> bool {
        self.ready.fetch_add(1, Ordering::AcqRel);
        loop {
            // Before the call: the process dies from the signal on.
            let sent = self.sent.load(Ordering::Acquire);
            match release(self.pidfd) {
                // The process is not dying.
                Err(Errno::INVAL) if !sent => {}
                result => return result.is_ok(),
            }
        }
    }
}

/// Frees private memory of a dying process. EINVAL if it is not dying or shares its memory with
/// one that is not, ESRCH if it has no memory any more.
fn release(pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: a system call on a descriptor; it affects only memory that a dying process does
    // not use any more.
    match unsafe { libc::syscall(PROCESS_MRELEASE, pidfd.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Keeps a process that has the usual policy from displacing a helper when the signal wakes it:
/// batch processes do not (check_preempt_wakeup_fair of kernel/sched/fair.c). It runs as soon as
/// a processor is free, and with the same weight. Failures are harmless.
fn let_others_run(process: Pid) {
    let process = process.as_raw_nonzero().get();
    // struct sched_param of the kernel (include/uapi/linux/sched/types.h). System calls, since musl
    // has these functions without an implementation.
    let priority: libc::c_int = 0;
    // SAFETY: calls about another process, with a structure that the kernel reads.
    unsafe {
        let policy = libc::syscall(libc::SYS_sched_getscheduler, process);
        if policy == libc::c_long::from(libc::SCHED_OTHER) {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                process,
                libc::SCHED_BATCH,
                &raw const priority,
            );
        }
    }
}

/// Waits for the end of a process.
fn wait(pidfd: BorrowedFd<'_>) {
    let mut polled = libc::pollfd {
        fd: pidfd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the kernel writes to one structure.
    while unsafe { libc::poll(&mut polled, 1, -1) } < 0 && last_error() == Errno::INTR {}
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Returns the private memory of a process: the resident pages less those of files and shared
/// memory.
fn private_bytes(process: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/statm", process.as_raw_nonzero())).ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    fn sleeper() -> (Child, Pid) {
        let child = Command::new("sleep").arg("1000000").spawn().unwrap();
        let process = Pid::from_child(&child);
        (child, process)
    }

    #[test]
    fn process_has_ended_by_the_signal_when_the_call_returns() {
        for helpers in [0, 1, 2, 5] {
            let (mut child, process) = sleeper();
            let killed = kill(process, helpers).unwrap();
            assert!(killed.helpers <= helpers);
            // It has ended: this does not wait.
            let status = child.try_wait().unwrap().unwrap();
            assert_eq!(status.signal(), Some(libc::SIGKILL));
        }
    }

    #[test]
    fn process_without_memory_is_no_error() {
        let (mut child, process) = sleeper();
        child.kill().unwrap();
        // It has ended, but stays until `wait`.
        waitid(
            WaitId::Pid(process),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .unwrap();
        let ended = kill(process, 2).unwrap();
        assert_eq!((ended.helpers, ended.private_bytes), (0, 0));
        child.wait().unwrap();
        assert_eq!(kill(process, 2), Err(Errno::SRCH));
    }
}
