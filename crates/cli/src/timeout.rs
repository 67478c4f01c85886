//! `--timeout`: ends a command that takes too long.
//!
//! The deadline is a signal, SIGALRM, and not a thread: commands that read an untrusted dump
//! confine their process while it has only one thread, and the time for opening counts as well.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use bigiron_helpers::Stop;
use signal_hook::consts::SIGALRM;
use signal_hook::low_level;

use crate::tell::escaped;

/// Exit status after the deadline: that of timeout(1).
pub const TIMED_OUT: u8 = 124;
/// Seconds that a command has after its deadline to leave a usable output behind.
const GRACE: u32 = 30;

static DEADLINE: OnceLock<Deadline> = OnceLock::new();
static HAS_EXPIRED: AtomicBool = AtomicBool::new(false);

/// What the signal handler uses, prepared before the deadline: a handler must not allocate.
struct Deadline {
    /// The message of each phase.
    messages: [String; 4],
    phase: AtomicUsize,
    /// Ends the work between two batches.
    stop: OnceLock<Arc<AtomicBool>>,
}

/// Phases of a command, as indices of [`Deadline::messages`].
const OPENING: usize = 0;
const READING: usize = 1;
const WORKING: usize = 2;
const STOPPING: usize = 3;

/// Starts the time of a command that opens the dump `name`. Without `seconds` there is no limit.
///
/// # Errors
///
/// The signal cannot be caught.
pub fn begin(seconds: Option<NonZeroU32>, name: &str) -> anyhow::Result<()> {
    let Some(seconds) = seconds else {
        return Ok(());
    };
    let name = escaped(name);
    let gave_up = format!("bigiron: {name}: gave up after {seconds} s (--timeout) while");
    DEADLINE.get_or_init(|| Deadline {
        messages: [
            format!("{gave_up} opening it\n"),
            format!("{gave_up} reading it; what was printed so far is valid\n"),
            format!("{gave_up} working on it; ends as after a signal\n"),
            format!(
                "bigiron: {name}: exits, since the work did not stop within {GRACE} s after \
                 --timeout\n"
            ),
        ],
        phase: AtomicUsize::new(OPENING),
        stop: OnceLock::new(),
    });
    // SAFETY: `expire` uses atomics, write(2), alarm(2) and _exit(2), all of which a signal
    // handler may use; it neither allocates nor panics.
    unsafe { low_level::register(SIGALRM, expire) }.context("cannot catch signals")?;
    unblock();
    arm(seconds.get());
    Ok(())
}

/// Records that the dump is open and its contents are read: the messages are different.
pub fn opened() {
    if let Some(deadline) = DEADLINE.get() {
        let _ =
            deadline
                .phase
                .compare_exchange(OPENING, READING, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Sets `stop` at the deadline, as a signal does, so that the work ends between two batches
/// and its output stays usable. If it has not ended 30 seconds later, the program exits.
pub fn stop_with(stop: &Stop) {
    if let Some(deadline) = DEADLINE.get() {
        let _ = deadline.stop.set(stop.flag());
        deadline.phase.store(WORKING, Ordering::Relaxed);
    }
}

/// Removes the deadline.
#[cfg(feature = "mount")]
pub fn end() {
    arm(0);
}

/// Returns true if the deadline has passed.
pub fn has_expired() -> bool {
    HAS_EXPIRED.load(Ordering::Relaxed)
}

/// The signal handler.
fn expire() {
    let Some(deadline) = DEADLINE.get() else {
        return;
    };
    let is_second = HAS_EXPIRED.swap(true, Ordering::Relaxed);
    let phase = match is_second {
        true => STOPPING,
        false => deadline.phase.load(Ordering::Relaxed),
    };
    if let Some(message) = deadline.messages.get(phase) {
        // One write, so that lines of other threads are not mixed with it.
        let _ = rustix::io::write(std::io::stderr(), message.as_bytes());
    }
    match deadline.stop.get() {
        Some(stop) if !is_second => {
            stop.store(true, Ordering::Relaxed);
            arm(GRACE);
        }
        _ => low_level::exit(TIMED_OUT.into()),
    }
}

/// Sends SIGALRM after `seconds`; 0 cancels it.
fn arm(seconds: u32) {
    // SAFETY: alarm takes a number and has no other effect.
    unsafe { libc::alarm(seconds) };
}

/// Unblocks SIGALRM, which the program's parent may have blocked.
fn unblock() {
    // SAFETY: the set is initialised by sigemptyset before it is used, and lives until the end.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}
