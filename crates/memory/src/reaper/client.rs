//! How a program gets a reaper: without allocating, thread-local memory, or leaving
//! anything that it could see.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use bigiron_helpers::HeldSignals;
use rustix::io::Errno;
use rustix::thread::sched_yield;

use super::Held;
use super::launch::Launch;
use super::socket;
use crate::call::system;

/// A reaper starts in a millisecond or two. One that takes this long is not waited for.
const READY: Duration = Duration::from_millis(100);
/// The most time for a segment's id to go after the word for it; it takes microseconds.
const GONE: Duration = Duration::from_secs(1);

/// A process that holds what it was told to, and waits for the word to let go.
#[derive(Debug)]
pub struct Reaper {
    socket: OwnedFd,
}

/// A reaper that was told to let go. Dropping it waits for nothing.
#[derive(Debug)]
pub struct Finishing {
    socket: OwnedFd,
}

impl Reaper {
    /// Starts `program`, an absolute path, as a reaper that holds `held`. When it returns, all of that
    /// is held. With `report` the reaper adds a line to that file when it has finished.
    ///
    /// The calling process has no child from it that any `wait` finds, gets no signal, and keeps
    /// one descriptor, close-on-exec, until the result is dropped. The caller's signals wait
    /// meanwhile. `errno` may be changed.
    ///
    /// Errors: of the system's calls; ETIMEDOUT where the program is not ready within
    /// 100 ms, ECHILD where it ended, as where it may not attach a segment; E2BIG for more than
    /// [`super::MAX_HELD`], ENAMETOOLONG. Then nothing is held for longer than the
    /// program takes to notice.
    pub fn start(program: &CStr, held: &[Held], report: Option<&CStr>) -> Result<Self, Errno> {
        // No handler of the caller runs in a process that is to become the reaper, which inherits that.
        let signals = HeldSignals::hold();
        let (ours, theirs) = socket::pair()?;
        let launch = Launch::map(program, held, report, theirs.as_raw_fd())?;
        launch.clone_twice()?;
        drop(theirs);
        let reaper = Self { socket: ours };
        let ready = socket::receive(reaper.socket.as_raw_fd(), &mut [0], READY);
        drop(launch);
        drop(signals);
        match ready {
            Ok(1) => Ok(reaper),
            Ok(_) => Err(Errno::CHILD),
            Err(error) => Err(error),
        }
    }

    /// Tells it to let go.
    pub fn go(self) -> Finishing {
        // A reaper that has died has let go too.
        let _ = socket::send(self.socket.as_raw_fd(), &[1]);
        Finishing {
            socket: self.socket,
        }
    }
}

impl Finishing {
    /// Waits until the id of a System V segment is gone, which is long before its pages are;
    /// whether it is. Not where others have attached it meanwhile.
    pub fn wait_until_gone(&self, id: i32) -> bool {
        let begin = Instant::now();
        let mut pause = Duration::ZERO;
        let mut is_last = false;
        loop {
            if !is_there(id) {
                return true;
            }
            if is_last || begin.elapsed() > GONE {
                return false;
            }
            // One more look after it has finished.
            is_last = socket::receive(self.socket.as_raw_fd(), &mut [0; 8], pause)
                != Err(Errno::TIMEDOUT);
            if begin.elapsed() > Duration::from_micros(500) {
                pause = Duration::from_micros(200);
            } else {
                sched_yield();
            }
        }
    }

    /// Waits until all is given back, for `limit` at most; what that took the reaper.
    /// `None` after the limit, and where the reaper was killed, which lets go of all too.
    pub fn wait(self, limit: Duration) -> Option<Duration> {
        let mut nanoseconds = [0; 8];
        match socket::receive(self.socket.as_raw_fd(), &mut nanoseconds, limit) {
            Ok(8) => Some(Duration::from_nanos(u64::from_le_bytes(nanoseconds))),
            _ => None,
        }
    }
}

/// Whether a segment has its id still. One that cannot be looked at is there.
fn is_there(id: i32) -> bool {
    !matches!(system::segment(id), Err(Errno::INVAL | Errno::IDRM))
}
