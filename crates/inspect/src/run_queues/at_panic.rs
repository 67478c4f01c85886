//! What became of each CPU when the kernel panicked.
//!
//! Relies on `panic_cpu` (kernel/panic.c), on the registers that a CPU left in `crash_notes` when
//! the panicking one stopped it (by NMI on x86; kernel/crash_core.c), and on `__cpu_online_mask`,
//! from which a CPU that is stopped otherwise takes itself (stop_this_cpu).

use serde::Serialize;

use crate::cpus::left_registers;
use crate::program::Program;
use crate::stack::panic_cpu;

/// What became of a CPU when the kernel panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtPanic {
    /// It is the one that panicked.
    Panicked,
    /// It stopped, and left its registers.
    LeftRegisters,
    /// It stopped.
    Stopped,
    /// It has not stopped, as far as the kernel knows: it did not answer.
    DidNotStop,
}

impl AtPanic {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Panicked => "panicked",
            Self::LeftRegisters => "left registers",
            Self::Stopped => "stopped",
            Self::DidNotStop => "did not stop",
        }
    }

    /// Reads it; `None` if the kernel did not panic.
    pub(super) fn of(program: &Program, cpu: usize) -> Option<Self> {
        let panicked = panic_cpu(program)?;
        if panicked == cpu {
            return Some(Self::Panicked);
        }
        if left_registers(program, cpu) {
            return Some(Self::LeftRegisters);
        }
        let mask = program.symbol("__cpu_online_mask").ok()?;
        let online = program.cpus_in(mask).ok()?;
        Some(match online.contains(&cpu) {
            true => Self::DidNotStop,
            false => Self::Stopped,
        })
    }
}
