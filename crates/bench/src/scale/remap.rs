//! /proc/vmcore by mmap() and by read() on 1, 2 and 4 CPUs, reproduced.
//!
//! Measured: HATAYAMA Daisuke, kexec mailing list, 3 July 2013: 32 GiB divided among as many
//! makedumpfile processes as CPUs are online, to /dev/null.
//!
//! Each access method has one parameter, the time that a window or page costs one CPU because of
//! one other, taken from the rows of 1 and 2 CPUs; the row of 4 CPUs is predicted. The growth
//! differs:
//! - read() maps and unmaps each page in the kernel's address space (ioremap), which interrupts all
//!   CPUs to flush one entry of their TLBs: the cost is the wait for the slowest answer.
//! - mmap() unmaps windows of 4 MiB in the address space of one process, which runs on one CPU:
//!   nobody is interrupted (see [`super::windows`], where threads are). The processes share the
//!   memory, and each of the others takes the same part of it.

use serde::Serialize;

use super::model::{Cost, Flush, FlushGrowth, Machine, Pass, WorkItem};
use super::simulate::simulate;

/// A column of the tables: seconds of each process with 1, 2 and 4 CPUs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Access {
    /// `mmap` or `read`.
    pub name: &'static str,
    /// With one CPU.
    pub one: f64,
    /// With two CPUs.
    pub two: [f64; 2],
    /// With four CPUs.
    pub four: [f64; 4],
    /// Number of page frames unmapped at once.
    pub frames_at_once: u64,
    /// Growth of the cost of other CPUs.
    pub growth: FlushGrowth,
}

/// The tables "benchmark result (Copy time)".
pub const ACCESSES: [Access; 2] = [
    Access {
        name: "mmap",
        one: 25.10,
        two: [11.88, 14.25],
        four: [5.66, 7.92, 7.99, 8.06],
        frames_at_once: 1024,
        growth: FlushGrowth::EveryCpu,
    },
    Access {
        name: "read",
        one: 149.39,
        two: [89.24, 104.33],
        four: [41.74, 59.59, 59.60, 60.03],
        frames_at_once: 1,
        growth: FlushGrowth::SlowestAnswer,
    },
];

/// Number of page frames of the machine.
const FRAMES: u64 = (32 << 30) / 4096;
/// Page frames per simulated piece.
const PIECE: u64 = 1024;

/// A row of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// `mmap` or `read`.
    pub name: &'static str,
    /// Number of CPUs.
    pub cpus: usize,
    /// Measured speedup over one CPU.
    pub measured: f64,
    /// Speedup in the model.
    pub model: f64,
    /// True if the model was not calibrated on this row.
    pub predicted: bool,
    /// Cost of one other CPU for each window or page, in microseconds.
    pub flush: f64,
}

impl Row {
    /// Returns the relative error of the model.
    pub fn error(&self) -> f64 {
        self.model / self.measured - 1.0
    }
}

/// Returns the second process's share of all work on two CPUs. The first has less, because its
/// half of the addresses has holes; it ends first, in the same proportion for both access
/// methods.
fn second_part() -> f64 {
    let parts = ACCESSES.map(|access| access.two[1] / (access.two[0] + access.two[1]));
    parts.iter().sum::<f64>() / parts.len() as f64
}

impl Access {
    /// Returns the cost of one other CPU for each window or page, in nanoseconds: the time that the slower of two
    /// processes, whose other CPU works throughout, takes in addition to its share.
    fn flush(&self) -> f64 {
        let part = second_part() * self.one;
        let extra = (self.two[1] / part - 1.0) * self.one;
        extra * 1e9 / (FRAMES / self.frames_at_once) as f64
    }

    fn seconds(&self, cpus: usize) -> f64 {
        let machine = Machine {
            helpers: cpus,
            flush: Some(Flush {
                nanoseconds: self.flush(),
                growth: self.growth,
            }),
            ..Machine::default()
        };
        let pieces = FRAMES / PIECE;
        let pass = Pass {
            name: "copy",
            pieces,
            piece: WorkItem {
                source: Cost::of(self.one * 1e9 / pieces as f64),
                flushes: PIECE as f64 / self.frames_at_once as f64,
                ..WorkItem::default()
            },
            spread: 0.0,
        };
        simulate(&machine, &[pass]).seconds
    }
}

/// Returns the rows of both tables. The published ratios compare mean times.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for access in &ACCESSES {
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        for (cpus, time) in [
            (1, access.one),
            (2, mean(&access.two)),
            (4, mean(&access.four)),
        ] {
            rows.push(Row {
                name: access.name,
                cpus,
                measured: access.one / time,
                model: access.seconds(1) / access.seconds(cpus),
                predicted: cpus > 2,
                flush: access.flush() / 1e3,
            });
        }
    }
    rows
}
