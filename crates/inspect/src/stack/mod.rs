//! Stack traces of tasks, by the kernel's own ORC tables.

pub mod orc;
pub mod registers;
mod trace;
mod unwind;

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::program::Program;
use crate::tasks::{Task, current_task};
use orc::Orc;
use registers::{Registers, of_cpu, of_sleeper};
pub use trace::{Frame, Trace};

/// Unwinds stacks of one kernel.
pub struct Unwinder<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    /// The unwind tables, or why there are none.
    orc: Result<Orc, String>,
    online: Vec<usize>,
}

impl<'p, 'k, 's> Unwinder<'p, 'k, 's> {
    /// Creates an unwinder for the kernel of `program`.
    ///
    /// # Errors
    ///
    /// The architecture is not supported.
    pub fn new(program: &'p Program<'k, 's>) -> Result<Self, InspectError> {
        let machine = program.kernel().source().machine();
        if machine != "x86_64" {
            return Err(InspectError::Unsupported {
                what: "stacks",
                found: format!("of {machine}"),
                known: "x86_64",
            });
        }
        Ok(Self {
            program,
            // Unreadable tables are treated like missing ones.
            orc: Orc::of(program).map_err(|error| error.to_string()),
            online: online_cpus(program, &mut Vec::new()),
        })
    }

    /// The reason why frames are found only by frame pointers, and are unreliable; `None` if
    /// the kernel's tables are used.
    pub fn without_tables(&self) -> Option<&str> {
        self.orc.as_ref().err().map(String::as_str)
    }

    /// Unwinds the stack of a task: of a running one by its CPU's saved registers, of a
    /// sleeping one by its saved context.
    pub fn task(&self, task: &Task) -> Result<Trace, InspectError> {
        let cpu = task.cpu.map(|cpu| cpu as usize).filter(|cpu| {
            task.on_cpu
                && current_task(self.program, *cpu).is_ok_and(|current| current == task.address)
        });
        match cpu {
            Some(cpu) => self.cpu(cpu),
            None => Ok(self.from(&of_sleeper(self.program, task.address)?, false)),
        }
    }

    /// The online CPUs.
    pub fn cpus(&self) -> &[usize] {
        &self.online
    }

    /// Unwinds the stack of a CPU.
    pub fn cpu(&self, cpu: usize) -> Result<Trace, InspectError> {
        Ok(match of_cpu(self.program, cpu, &self.online)? {
            Some(registers) => self.from(&registers, true),
            None => Trace {
                frames: Vec::new(),
                cut: Some(format!("CPU {cpu} left no registers")),
            },
        })
    }

    /// Unwinds from these registers; `complete` is false for those of a sleeping task.
    fn from(&self, registers: &Registers, complete: bool) -> Trace {
        if registers.is_user() {
            return Trace {
                frames: Vec::new(),
                cut: Some("it was not in the kernel".into()),
            };
        }
        unwind::Walk::new(self.program, self.orc.as_ref().ok(), registers, complete).all()
    }
}

/// The CPU that panicked; `None` if none did.
pub fn panic_cpu(program: &Program) -> Option<usize> {
    // An atomic_t, initially -1 (PANIC_CPU_INVALID); since 4.5 (commit 1717f2096b54).
    let cpu = program.variable("panic_cpu", 4).ok()? as u32;
    usize::try_from(cpu.cast_signed()).ok()
}
