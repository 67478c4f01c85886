//! CPU time of a thread or of the process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time that `clock`, a CPU-time clock, shows.
pub fn processor_time(clock: ClockId) -> Duration {
    // CPU-time clocks start at zero, so the conversion does not fail.
    clock_gettime(clock).try_into().unwrap_or_default()
}
