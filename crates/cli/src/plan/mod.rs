//! `bigiron plan`: what a crash of this machine would leave behind, judged before it happens.
//!
//! | module | contents |
//! |---|---|
//! | `line` | verdicts, and the lines that have them |
//! | `root`, `kit` | files below the root; the settings of the capture kernel's scripts |
//! | `panic` | whether failures become a panic, and a panic a dump |
//! | `reservation` | the memory of the capture kernel |
//! | `place`, `target` | the place of the dump, and its room |
//! | `checked` | what the checks are made with |
//! | `prepared` | options, keys, initramfs and units |
//! | `memory_device` | a dump device in memory |
//! | `memory` | estimates of a machine's memory |
//! | `estimate`, `disk` | size and time of the dump |
//! | `rehearsal` | a dump in the capture kernel's image that is not written |
//! | `report` | text and JSON |

mod checked;
mod disk;
pub mod estimate;
pub mod kit;
mod line;
mod memory;
mod memory_device;
mod panic;
mod place;
mod prepared;
mod rehearsal;
pub mod report;
mod reservation;
mod root;
mod target;

pub use checked::Checked;
pub use disk::measure as measure_disk;
pub use line::{Line, Section};
pub use memory::{CaptureKernel, estimate_memory, expected_bytes};
pub use place::Target;
pub use rehearsal::rehearse;
pub use reservation::page_frames;
pub use root::Root;

/// Makes all checks, in the order of output.
pub fn check(checked: &Checked) -> Vec<Line> {
    let mut lines = Vec::new();
    let found = [
        (Section::Panic, panic::check(checked.root)),
        (Section::Reservation, reservation::check(checked)),
        (Section::Target, target::check(checked)),
        (Section::Prepared, prepared::check(checked)),
        (Section::MemoryDevice, memory_device::check(checked)),
    ];
    for (section, found) in found {
        lines.extend(found.into_iter().map(|line| line.in_section(section)));
    }
    lines
}
