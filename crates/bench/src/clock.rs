//! CPU time of a thread or of the process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time shown by `clock`, a CPU-time clock.
pub fn processor_time(clock: ClockId) -> Duration {
    // CPU-time clocks start at zero, so the conversion cannot fail.
    clock_gettime(clock).try_into().unwrap_or_default()
}
