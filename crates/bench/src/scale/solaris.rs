//! Parallel dumps of Solaris 10 9/10, reproduced.
//!
//! Measured: Steve Sistare, "Fast Crash Dump", 19 July 2011. Before, one CPU compressed with
//! lzjb and waited for each write. After, all frozen CPUs compress chunks of 4 MB with bzip2
//! and one of them writes.
//!
//! The disk's bandwidth is derived from the time before; the time after is the model's
//! prediction.

use serde::Serialize;

use super::model::{Cost, Machine, Pass, WorkItem};
use super::outcome::Outcome;
use super::simulate::simulate;

/// Size of a chunk in bytes ("in 4 MB chunks").
const CHUNK: f64 = 4e6;
/// CPU time of bzip2 relative to lzjb, "20X to 40X more"; the low end.
const BZIP2_COST: f64 = 20.0;
/// Speedup by more helpers below which a dump counts as disk-bound.
const PLATEAU: f64 = 1.05;

/// A machine of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct System {
    /// Name of the machine.
    pub name: &'static str,
    /// Number of CPUs as counted by Solaris: hardware threads.
    pub cpus: usize,
    /// Size of the uncompressed kernel pages in bytes.
    pub bytes: f64,
    /// bzip2's compression ratio.
    pub ratio: f64,
    /// Measured seconds with the serial dump and lzjb.
    pub before: f64,
    /// Measured seconds with the parallel dump and bzip2.
    pub after: f64,
    /// Stated: lzjb's ratio. "2x more than lzjb for most cases"; in "the extreme case 39X vs
    /// 9X", which the M9000 is near.
    pub lzjb_ratio: f64,
    /// Stated: throughput of lzjb in bytes per second on one CPU that has its core alone.
    pub lzjb_rate: f64,
    /// Stated: slowdown of a hardware thread while the other threads of its core work.
    pub sharing: f64,
}

/// The table. The rates of lzjb are estimates by processor: SPARC64 VII of 2.5 GHz, UltraSPARC
/// T2+ (in order, 8 threads per core), Xeon of 2.9 GHz, Opteron of 2.3 GHz. On x86 they are
/// rates over a typical dump, much of which is zero or nearly zero.
pub const SYSTEMS: [System; 4] = [
    System {
        name: "M9000",
        cpus: 512,
        bytes: 90.6e9,
        ratio: 42.0,
        before: 1710.0,
        after: 123.0,
        lzjb_ratio: 42.0 * 9.0 / 39.0,
        lzjb_rate: 75e6,
        sharing: 1.6,
    },
    System {
        name: "T5440",
        cpus: 256,
        bytes: 19.4e9,
        ratio: 7.2,
        before: 1641.0,
        after: 269.0,
        lzjb_ratio: 3.6,
        lzjb_rate: 18e6,
        sharing: 2.5,
    },
    System {
        name: "x4450",
        cpus: 16,
        bytes: 4.9e9,
        ratio: 6.7,
        before: 22.0,
        after: 7.0,
        lzjb_ratio: 3.35,
        lzjb_rate: 800e6,
        sharing: 1.0,
    },
    System {
        name: "x4600",
        cpus: 32,
        bytes: 14.6e9,
        ratio: 3.1,
        before: 227.0,
        after: 106.0,
        lzjb_ratio: 1.55,
        lzjb_rate: 630e6,
        sharing: 1.0,
    },
];

/// The model's prediction for a system.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The system.
    pub system: System,
    /// Bandwidth of its disk in bytes per second, derived from the time before.
    pub disk_rate: f64,
    /// The dump before, simulated with that bandwidth.
    pub before: Outcome,
    /// The dump after: the prediction.
    pub after: Outcome,
    /// Number of helpers from which the dump is disk-bound; `None` if the system has fewer.
    pub helpers_needed: Option<usize>,
}

impl Prediction {
    /// Returns the relative error of the predicted time after.
    pub fn error(&self) -> f64 {
        self.after.seconds / self.system.after - 1.0
    }
}

impl System {
    /// Returns the disk's bandwidth: the time before, minus the CPU time, was spent on the
    /// disk.
    pub fn disk_rate(&self) -> f64 {
        let compressing = self.bytes / self.lzjb_rate;
        self.bytes / self.lzjb_ratio / (self.before - compressing)
    }

    fn pass(&self, rate: f64, ratio: f64) -> Pass {
        Pass {
            name: "dump",
            pieces: (self.bytes / CHUNK) as u64,
            piece: WorkItem {
                cpu: Cost::of(CHUNK / rate * 1e9),
                bytes: CHUNK / ratio,
                ..WorkItem::default()
            },
            spread: 0.5,
        }
    }

    /// Simulates the serial dump.
    pub fn serial(&self) -> Outcome {
        let machine = Machine {
            disk_rate: self.disk_rate(),
            synchronous: true,
            ..Machine::default()
        };
        simulate(&machine, &[self.pass(self.lzjb_rate, self.lzjb_ratio)])
    }

    /// Simulates the parallel dump with this number of helpers; each has one output buffer.
    pub fn parallel(&self, helpers: usize) -> Outcome {
        let machine = Machine {
            helpers,
            disk_rate: self.disk_rate(),
            buffer: helpers as f64 * CHUNK / self.ratio,
            ..Machine::default()
        };
        let rate = self.lzjb_rate / BZIP2_COST / self.sharing;
        simulate(&machine, &[self.pass(rate, self.ratio)])
    }

    /// Predicts the parallel dump. One CPU is the panicking one, which writes.
    pub fn predict(&self) -> Prediction {
        let disk_rate = self.disk_rate();
        let on_disk = self.bytes / self.ratio / disk_rate;
        let bound = |helpers| self.parallel(helpers).seconds < on_disk * PLATEAU;
        let helpers = self.cpus - 1;
        let helpers_needed = bound(helpers).then(|| {
            let (mut too_few, mut enough) = (0, helpers);
            while enough - too_few > 1 {
                let middle = usize::midpoint(too_few, enough);
                if bound(middle) {
                    enough = middle;
                } else {
                    too_few = middle;
                }
            }
            enough
        });
        Prediction {
            system: *self,
            disk_rate,
            before: self.serial(),
            after: self.parallel(helpers),
            helpers_needed,
        }
    }
}

/// Returns the predictions for all systems.
pub fn predictions() -> Vec<Prediction> {
    SYSTEMS.iter().map(System::predict).collect()
}
