//! Parallel dumps of Solaris 10 9/10, reproduced.
//!
//! Measured: Steve Sistare, "Fast Crash Dump", 19 July 2011. Before, one CPU
//! compressed with lzjb and waited for each write. After, all frozen CPUs
//! compress chunks of 4 MB with bzip2 and one of them writes.
//!
//! The disk's bandwidth follows from the time before; the time after is what
//! the model predicts.

use serde::Serialize;

use super::model::{Cost, Machine, Pass, Piece};
use super::outcome::Outcome;
use super::simulate::simulate;

/// Bytes of a chunk ("in 4 MB chunks").
const CHUNK: f64 = 4e6;
/// bzip2 takes "20X to 40X more" CPU time than lzjb; the low end.
const BZIP2_COST: f64 = 20.0;
/// A dump is bound by its disks when more helpers make it this little faster.
const PLATEAU: f64 = 1.05;

/// One machine of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct System {
    /// Its name.
    pub name: &'static str,
    /// CPUs, as Solaris counts them: hardware threads.
    pub cpus: usize,
    /// Uncompressed kernel pages, in bytes.
    pub bytes: f64,
    /// bzip2's compression ratio.
    pub ratio: f64,
    /// Measured seconds, serial with lzjb.
    pub before: f64,
    /// Measured seconds, parallel with bzip2.
    pub after: f64,
    /// Stated: lzjb's ratio. "2x more than lzjb for most cases"; in "the
    /// extreme case 39X vs 9X", which the M9000 is near.
    pub lzjb_ratio: f64,
    /// Stated: bytes per second of lzjb on one CPU that has its core alone.
    pub lzjb_rate: f64,
    /// Stated: how much slower a hardware thread is when its neighbours on the
    /// core work too.
    pub sharing: f64,
}

/// The table. The rates of lzjb are estimates, by processor: SPARC64 VII of
/// 2.5 GHz, UltraSPARC T2+ (in order, 8 threads a core), Xeon of 2.9 GHz,
/// Opteron of 2.3 GHz. On x86 they are rates over a dump as it comes, of which
/// much is zero or nearly so.
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

/// What the model says of a system.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The system.
    pub system: System,
    /// Bytes per second of its disk, from the time before.
    pub disk_rate: f64,
    /// The dump before, simulated with that.
    pub before: Outcome,
    /// The dump after: the prediction.
    pub after: Outcome,
    /// Helpers from which on the disk bounds it; `None` if it has too few.
    pub helpers_needed: Option<usize>,
}

impl Prediction {
    /// Predicted to measured time after, less one.
    pub fn error(&self) -> f64 {
        self.after.seconds / self.system.after - 1.0
    }
}

impl System {
    /// What is left of the time before when the CPU had its part went to the disk.
    pub fn disk_rate(&self) -> f64 {
        let compressing = self.bytes / self.lzjb_rate;
        self.bytes / self.lzjb_ratio / (self.before - compressing)
    }

    fn pass(&self, rate: f64, ratio: f64) -> Pass {
        Pass {
            name: "dump",
            pieces: (self.bytes / CHUNK) as u64,
            piece: Piece {
                cpu: Cost::of(CHUNK / rate * 1e9),
                bytes: CHUNK / ratio,
                ..Piece::default()
            },
            spread: 0.5,
        }
    }

    /// The serial dump.
    pub fn serial(&self) -> Outcome {
        let machine = Machine {
            disk_rate: self.disk_rate(),
            synchronous: true,
            ..Machine::default()
        };
        simulate(&machine, &[self.pass(self.lzjb_rate, self.lzjb_ratio)])
    }

    /// The parallel dump with so many helpers; each has one output buffer.
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

    /// Predicts the parallel dump. One CPU is the panic thread, which writes.
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

/// All systems' predictions.
pub fn predictions() -> Vec<Prediction> {
    SYSTEMS.iter().map(System::predict).collect()
}
