//! Progress and rates, formatted for people.

use std::ops::ControlFlow;
use std::time::Duration;

use bigiron_helpers::Stop;

use crate::progress::Line;
use crate::size;

/// Shows the progress; returns `Break` after a signal.
pub fn watch(line: &mut Line, stop: &Stop, done: usize) -> ControlFlow<()> {
    line.show(done as u64);
    if stop.is_set() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Writes `1.20 s`, or milliseconds where there are less than a hundred.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 0.1 {
        format!("{:.2} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

/// Writes `4.0 GiB in 1.20 s, 3.3 GiB a second`.
pub fn rate(bytes: u64, duration: Duration) -> String {
    let a_second = bytes as f64 / duration.as_secs_f64().max(1e-9);
    let (bytes, a_second) = (size::format(bytes), size::format(a_second as u64));
    format!("{bytes} in {}, {a_second} a second", time(duration))
}
