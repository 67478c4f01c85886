//! The caller's side of a reaper. It neither allocates nor uses thread-local memory, and leaves
//! nothing that the program could notice.

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

/// The time limit for the start of a reaper, which takes a millisecond or two.
const READY: Duration = Duration::from_millis(100);
/// The time limit for the removal of a segment's id once the reaper lets go, which takes
/// microseconds.
const GONE: Duration = Duration::from_secs(1);

/// A process that holds references to memory and waits for the command to release them.
#[derive(Debug)]
pub struct Reaper {
    socket: OwnedFd,
}

/// A reaper that was told to release its references. Dropping it does not wait.
#[derive(Debug)]
pub struct Finishing {
    socket: OwnedFd,
    /// The reaper's report, once it was received.
    took: Cell<Option<Duration>>,
}

impl Reaper {
    /// Starts `program`, an absolute path, as a reaper that holds `held`. When it returns, all of
    /// `held` is held. With `report` the reaper appends a line to that file when it has finished.
    ///
    /// The calling process gets no child that any `wait` finds and no signal, and keeps one
    /// descriptor, close-on-exec, until the result is dropped. The caller's signals are held back
    /// meanwhile. `errno` may be changed.
    ///
    /// Errors: those of the system calls; ETIMEDOUT if the program is not ready within 100 ms;
    /// ECHILD if it ended, for example because it may not attach a segment; E2BIG for more than
    /// [`super::MAX_HELD`] references; ENAMETOOLONG. After an error nothing is held for longer
    /// than the program takes to notice.
    pub fn start(program: &CStr, held: &[Held], report: Option<&CStr>) -> Result<Self, Errno> {
        Self::start_within(program, held, report, READY)
    }

    /// [`Reaper::start`] with another time limit.
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

    /// Tells the reaper to release its references.
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
    /// Waits until the id of a System V segment is gone, which is long before its pages are freed.
    /// Returns false if it stays, because others have attached the segment.
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

    /// Waits until all memory is freed, at most for `limit`. Returns the time that the reaper
    /// took; `None` after the limit, and if the reaper was killed, which frees the memory too.
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

/// Returns false if no segment has this id; a segment that may not be looked at exists.
fn is_there(id: i32) -> bool {
    !matches!(system::segment(id), Err(Errno::INVAL | Errno::IDRM))
}
