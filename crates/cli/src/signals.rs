//! Signals, which stop a dump between two batches so that it stays readable.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use bigiron_dump::DumpError;
use bigiron_helpers::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::timeout;

/// The last signal received; 0 for none.
static RECEIVED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Sets `stop` on a signal. A second signal ends the program at once.
pub fn watch(stop: &Stop) -> anyhow::Result<()> {
    let received = RECEIVED.get_or_init(Default::default);
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let register = || -> std::io::Result<()> {
            flag::register_conditional_shutdown(signal, 128 + signal, stop.flag())?;
            flag::register_usize(signal, Arc::clone(received), signal as usize)?;
            flag::register(signal, stop.flag())?;
            Ok(())
        };
        register().context("cannot catch signals")?;
    }
    // If caught, a write beyond `ulimit -f` fails with EFBIG, like one to a full disk. The flag
    // itself is not used.
    flag::register(SIGXFSZ, Arc::default()).context("cannot catch signals")?;
    Ok(())
}

/// True if a signal was received.
pub fn received() -> bool {
    let received = RECEIVED.get();
    received.is_some_and(|received| received.load(Ordering::Relaxed) != 0)
}

/// Returns 128 plus the signal number if a signal ended the work, and [`timeout::TIMED_OUT`] if
/// the deadline did.
pub fn exit_code(error: &anyhow::Error) -> Option<u8> {
    let is_dump = matches!(error.downcast_ref(), Some(DumpError::Interrupted { .. }));
    if !is_dump && !is_segment(error) && !is_hotplug(error) {
        return None;
    }
    if timeout::has_expired() {
        return Some(timeout::TIMED_OUT);
    }
    code()
}

/// Returns 128 plus the number of the last signal received.
pub fn code() -> Option<u8> {
    let signal = RECEIVED
        .get()
        .map_or(0, |received| received.load(Ordering::Relaxed));
    u8::try_from(128 + signal).ok().filter(|_| signal != 0)
}

#[cfg(feature = "memory")]
fn is_segment(error: &anyhow::Error) -> bool {
    use bigiron_memory::segment::SegmentError;
    matches!(error.downcast_ref(), Some(SegmentError::Interrupted { .. }))
}

#[cfg(not(feature = "memory"))]
fn is_segment(_error: &anyhow::Error) -> bool {
    false
}

/// A signal ended a CPU hotplug operation early.
#[cfg(feature = "hotplug")]
#[derive(Debug, thiserror::Error)]
#[error("interrupted: {done} done; {left} unchanged")]
pub struct HotplugInterrupted {
    /// The CPUs that were taken offline or online.
    pub done: String,
    /// The CPUs that were not.
    pub left: String,
}

#[cfg(feature = "hotplug")]
fn is_hotplug(error: &anyhow::Error) -> bool {
    error.is::<HotplugInterrupted>()
}

#[cfg(not(feature = "hotplug"))]
fn is_hotplug(_error: &anyhow::Error) -> bool {
    false
}
