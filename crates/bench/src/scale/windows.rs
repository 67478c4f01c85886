//! Threads that read /proc/vmcore through mapped windows, reproduced.
//!
//! Measured in a capture kernel 6.1 with two emulated CPUs on two idle ones: 787 MB are mapped,
//! read as words, and unmapped, by one thread and by two. Three laws follow:
//! - A window costs time for each page that it maps, whether the page is read or not. Threads that
//!   take neighbouring batches in turns through windows of their own each map all memory.
//! - When a window is unmapped, the threads of a process interrupt each other. The cost of this
//!   flush does not depend on the window's size. It follows from the rows of windows of 4 MiB that
//!   are read whole; the other rows are predicted.
//! - Processes do not interrupt each other: for two of them, mapping and unmapping took 2.07 times
//!   as long as for one process with windows of its own, and 1.05 times with windows read whole, so
//!   the first law alone applies.

use serde::Serialize;

use super::model::{Cost, Flush, FlushGrowth, Machine, Pass, WorkItem};
use super::simulate::simulate;

/// Bytes read.
const BYTES: f64 = 787e6;
/// The row that yields the cost of a flush.
const CALIBRATES: usize = 1;

/// A way to read: the seconds of one thread, and of two.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Windows {
    /// Size of a window, in bytes.
    pub size: u64,
    /// True if each thread maps all memory, of which it reads its batches of 1 MiB.
    pub maps_all: bool,
    /// Reading by one thread.
    pub read: f64,
    /// Mapping and unmapping by one thread.
    pub map: f64,
    /// All of two threads.
    pub two: f64,
}

const fn windows(mebibytes: u64, maps_all: bool, read: f64, map: f64, two: f64) -> Windows {
    Windows {
        size: mebibytes << 20,
        maps_all,
        read,
        map,
        two,
    }
}

/// The measured rows.
pub const WINDOWS: [Windows; 5] = [
    windows(4, true, 0.152, 0.069, 0.2115),
    windows(4, false, 0.150, 0.068, 0.125),
    windows(1, false, 0.153, 0.140, 0.1965),
    windows(16, false, 0.150, 0.0445, 0.1035),
    windows(64, false, 0.1485, 0.0375, 0.098),
];

/// A row of the table: speed of two threads against one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// The way to read.
    pub windows: Windows,
    /// Measured speedup.
    pub measured: f64,
    /// Speedup in the model.
    pub model: f64,
    /// True if the model was not calibrated on this row.
    pub predicted: bool,
}

impl Row {
    /// Returns the relative error of the model.
    pub fn error(&self) -> f64 {
        self.model / self.measured - 1.0
    }
}

/// Returns the seconds of a flush with one other CPU: what two threads take in addition to the
/// work of one, for each window.
pub fn flush() -> f64 {
    let row = &WINDOWS[CALIBRATES];
    (2.0 * row.two - row.read - row.map) / (BYTES / row.size as f64)
}

impl Windows {
    /// Returns the seconds of this number of threads, by the model.
    pub fn seconds(&self, threads: usize) -> f64 {
        let pieces = (BYTES / self.size as f64).ceil() as u64;
        let maps = if self.maps_all { threads as f64 } else { 1.0 };
        let machine = Machine {
            helpers: threads,
            flush: Some(Flush {
                nanoseconds: 1e9 * flush(),
                growth: FlushGrowth::EveryCpu,
            }),
            ..Machine::default()
        };
        // Halves, so that two threads end at the same time.
        let pass = Pass {
            name: "read",
            pieces: 2 * pieces,
            piece: WorkItem {
                source: Cost::of(1e9 * (self.read + maps * self.map) / (2 * pieces) as f64),
                flushes: 0.5 * maps,
                ..WorkItem::default()
            },
            spread: 0.0,
        };
        simulate(&machine, &[pass]).seconds
    }
}

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    let rows = WINDOWS.iter().enumerate();
    rows.map(|(index, windows)| Row {
        windows: *windows,
        measured: (windows.read + windows.map) / windows.two,
        model: windows.seconds(1) / windows.seconds(2),
        predicted: index != CALIBRATES,
    })
    .collect()
}
