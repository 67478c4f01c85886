//! The caller's side of a reaper. It neither allocates nor uses thread-local memory, and has no
//! effect that the program could notice.

use std::cell::Cell;
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

/// Time limit for the start of a reaper, which takes a millisecond or two.
const READY: Duration = Duration::from_millis(100);
/// Time limit for the removal of a segment's id after the reaper has released the segment,
/// which takes microseconds.
const GONE: Duration = Duration::from_secs(1);

/// A reaper process that holds references to memory until [`Reaper::go`].
#[derive(Debug)]
pub struct Reaper {
    socket: OwnedFd,
}

/// A reaper that is releasing its references. Dropping this value does not wait.
#[derive(Debug)]
pub struct Finishing {
    socket: OwnedFd,
    /// Time that the reaper took, once its report was received.
    took: Cell<Option<Duration>>,
}

impl Reaper {
    /// Starts `program`, an absolute path, as a reaper that holds `held`. On return, all of
    /// `held` is held. With `report` the reaper appends a line to that file when it has
    /// finished.
    ///
    /// The calling process receives no signal, and no child that any `wait` could find. It
    /// keeps one descriptor, close-on-exec, until the result is dropped. The caller's signals
    /// are blocked during the call. `errno` may be changed.
    ///
    /// Errors: those of the system calls; ETIMEDOUT if the program is not ready within 100 ms;
    /// ECHILD if it ended, for example because it may not attach a segment; E2BIG for more than
    /// [`super::MAX_HELD`] references; ENAMETOOLONG. After an error, everything is released as
    /// soon as the program notices.
    pub fn start(program: &CStr, held: &[Held], report: Option<&CStr>) -> Result<Self, Errno> {
        Self::start_within(program, held, report, READY)
    }

    /// As [`Reaper::start`], with another time limit.
    pub fn start_within(
        program: &CStr,
        held: &[Held],
        report: Option<&CStr>,
        limit: Duration,
    ) -> Result<Self, Errno> {
        // The future reaper inherits the mask: no handler of the caller may run in it.
        let signals = HeldSignals::hold();
        let (ours, theirs) = socket::pair()?;
        let launch = Launch::map(program, held, report, theirs.as_raw_fd())?;
        launch.clone_twice()?;
        drop(theirs);
        let reaper = Self { socket: ours };
        let ready = socket::receive(reaper.socket.as_raw_fd(), &mut [0], limit);
        drop(launch);
        drop(signals);
        match ready {
            Ok(1) => Ok(reaper),
            Ok(_) => Err(Errno::CHILD),
            Err(error) => Err(error),
        }
    }

    /// Makes the reaper release its references.
    pub fn go(self) -> Finishing {
        // A reaper that has died has released them too.
        let _ = socket::send(self.socket.as_raw_fd(), &[1]);
        Finishing {
            socket: self.socket,
            took: Cell::new(None),
        }
    }
}

impl Finishing {
    /// Waits until the id of a System V segment is gone, long before its pages are freed.
    /// Returns false if the id stays, because others have attached the segment.
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
            // The id is looked up once more after the reaper has finished.
            is_last = self.receive(pause) != Err(Errno::TIMEDOUT);
            if begin.elapsed() > Duration::from_micros(500) {
                pause = Duration::from_micros(200);
            } else {
                sched_yield();
            }
        }
    }

    /// Waits until all memory is freed, but no longer than `limit`. Returns the time that the
    /// reaper took; `None` after the limit, and if the reaper was killed, which frees the
    /// memory too.
    pub fn wait(self, limit: Duration) -> Option<Duration> {
        if self.took.get().is_none() {
            let _ = self.receive(limit);
        }
        self.took.get()
    }

    /// Waits for the reaper's report or its end.
    fn receive(&self, limit: Duration) -> Result<(), Errno> {
        let mut nanoseconds = [0; 8];
        let received = socket::receive(self.socket.as_raw_fd(), &mut nanoseconds, limit)?;
        if received == nanoseconds.len() {
            let took = Duration::from_nanos(u64::from_le_bytes(nanoseconds));
            self.took.set(Some(took));
        }
        Ok(())
    }
}

/// Returns false if no segment has this id. A segment that may not be inspected exists.
fn is_there(id: i32) -> bool {
    !matches!(system::segment(id), Err(Errno::INVAL | Errno::IDRM))
}
