//! A machine of 32 TB.

use serde::Serialize;

use super::costs::{CodecCosts, Costs, Kept, PAGE_BYTES};
use super::model::{Machine, Memory};
use super::outcome::Outcome;
use super::simulate::simulate;

/// Page frames of 32 TB.
pub const FRAMES: u64 = 32_000_000_000_000 / 4096;
/// Helpers of the table.
pub const HELPERS: [usize; 3] = [16, 64, 512];
/// Disks of the table; and whether they take one file, whose lock lets one
/// write through at a time, or a striped device, which has no such lock.
pub const DISKS: [(usize, bool); 4] = [(1, false), (4, false), (16, false), (16, true)];
/// The dump levels of the table.
pub const LEVELS: [u8; 2] = [1, 31];
/// Memory of a helper: windows, buffers and a codec's context.
const PER_HELPER: u64 = 5 << 20;
/// Memory that all helpers share.
const SHARED: u64 = 4 << 20;
/// Taking a piece of work is one atomic addition on a cache line that all
/// helpers want.
const TAKE: f64 = 200.0;

/// What the machine has beside helpers and disks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hardware {
    /// Bytes per second that one disk takes.
    pub disk_rate: f64,
    /// Bytes per second that all helpers together can read from memory.
    pub bus_rate: f64,
    /// Bytes that the helpers may take.
    pub memory: u64,
    /// Bytes that may wait for the disks.
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

/// What a dump level keeps of it, stated: level 1 all, of which three tenths
/// are zero; level 31 three hundredths, the kernel's own.
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

/// One dump of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The dump level.
    pub level: u8,
    /// The codec.
    pub codec: String,
    /// Helpers wanted.
    pub helpers: usize,
    /// Disks.
    pub disks: usize,
    /// Whether they hold one file.
    pub one_file: bool,
    /// What came out.
    pub outcome: Outcome,
}

/// Simulates one dump of the machine.
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

/// The whole table, codec by codec, and last the best codec of each cell, as
/// one would have who always chose rightly.
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
