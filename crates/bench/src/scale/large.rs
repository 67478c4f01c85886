//! A machine of 32 TB.

use serde::Serialize;

use super::costs::{CodecCosts, Costs, Kept, PAGE_BYTES};
use super::model::{Machine, Memory};
use super::outcome::Outcome;
use super::simulate::simulate;

/// Page frames of 32 TB.
pub const FRAMES: u64 = 32_000_000_000_000 / 4096;
/// Numbers of helpers in the table.
pub const HELPERS: [usize; 3] = [16, 64, 512];
/// Numbers of disks in the table, with true if they hold one file, whose lock admits one write
/// at a time, and false for a striped device, which has no such lock.
pub const DISKS: [(usize, bool); 4] = [(1, false), (4, false), (16, false), (16, true)];
/// Dump levels in the table.
pub const LEVELS: [u8; 2] = [1, 31];
/// Memory per helper in bytes: windows, buffers and a codec's context.
const PER_HELPER: u64 = 5 << 20;
/// Memory shared by all helpers, in bytes.
const SHARED: u64 = 4 << 20;
/// Time to take a piece of work, in nanoseconds: one atomic addition on a cache line contended
/// by all helpers.
const TAKE: f64 = 200.0;

/// Properties of the machine other than helpers and disks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hardware {
    /// Write rate of one disk in bytes per second.
    pub disk_rate: f64,
    /// Read rate of memory for all helpers together, in bytes per second.
    pub bus_rate: f64,
    /// Memory available to the helpers, in bytes.
    pub memory: u64,
    /// Maximum number of bytes waiting for the disks.
    pub buffer: f64,
}

impl Default for Hardware {
    fn default() -> Self {
        Self {
            disk_rate: 2e9,
            bus_rate: 200e9,
            memory: 4 << 30,
            buffer: 1e9,
        }
    }
}

/// Returns the stated shares of a dump level: level 1 keeps everything, three tenths of it
/// zero; level 31 keeps three hundredths, the kernel's memory.
pub fn kept(level: u8) -> Kept {
    let (part, zero) = if level & 30 == 0 {
        (1.0, 0.3)
    } else {
        (0.03, 0.05)
    };
    Kept {
        frames: FRAMES,
        pages: (FRAMES as f64 * part) as u64,
        zero,
        equal: 0.02,
    }
}

/// A dump in the table.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The dump level.
    pub level: u8,
    /// The codec.
    pub codec: String,
    /// Requested number of helpers.
    pub helpers: usize,
    /// Number of disks.
    pub disks: usize,
    /// True if the disks hold one file.
    pub one_file: bool,
    /// Outcome of the simulation.
    pub outcome: Outcome,
}

/// Simulates a dump of the machine.
pub fn dump(
    costs: &Costs,
    hardware: &Hardware,
    kept: &Kept,
    codec: &CodecCosts,
    helpers: usize,
    (disks, one_file): (usize, bool),
) -> Outcome {
    let reading = PAGE_BYTES / costs.read.at(helpers) * 1e9;
    let machine = Machine {
        helpers,
        memory: Some(Memory {
            budget: hardware.memory,
            shared: SHARED,
            per_helper: PER_HELPER,
        }),
        take: TAKE,
        bus_helpers: hardware.bus_rate / reading,
        one_file,
        hand_over: costs.hand_over,
        disks,
        disk_rate: hardware.disk_rate,
        buffer: hardware.buffer,
        start: costs.start,
        ..Machine::default()
    };
    simulate(&machine, &costs.passes(kept, codec))
}

/// Returns the whole table, codec by codec, and last the best codec of each cell, as an always
/// correct choice would have it.
pub fn table(costs: &Costs, hardware: &Hardware) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for level in LEVELS {
        let begin = cells.len();
        for codec in &costs.codecs {
            for helpers in HELPERS {
                for place in DISKS {
                    let outcome = dump(costs, hardware, &kept(level), codec, helpers, place);
                    cells.push(Cell {
                        level,
                        codec: codec.name.clone(),
                        helpers,
                        disks: place.0,
                        one_file: place.1,
                        outcome,
                    });
                }
            }
        }
        let row = HELPERS.len() * DISKS.len();
        for column in 0..row {
            let codecs = cells[begin..].iter().take(costs.codecs.len() * row);
            let same = codecs.skip(column).step_by(row);
            let best = same.min_by(|a, b| a.outcome.seconds.total_cmp(&b.outcome.seconds));
            if let Some(mut best) = best.cloned() {
                best.codec = format!("best: {}", best.codec);
                cells.push(best);
            }
        }
    }
    cells
}
