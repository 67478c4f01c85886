//! Stack traces of tasks. Registers and the way to a caller belong to the architecture
//! (`bigiron_kernel::arch`).

mod notes;
mod reader;
mod trace;

use bigiron_kernel::arch::stacks::{Reason, Unwind};

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::program::Program;
use crate::tasks::{Task, current_task};
pub(crate) use notes::interrupts_off;
pub use trace::{Frame, Trace};

/// Unwinds stacks of one kernel.
pub struct Unwinder<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    unwind: Box<dyn Unwind>,
    online: Vec<usize>,
}

impl<'p, 'k, 's> Unwinder<'p, 'k, 's> {
    /// Creates an unwinder for the kernel of `program`.
    ///
    /// # Errors
    ///
    /// The stacks of the architecture cannot be unwound.
    pub fn new(program: &'p Program<'k, 's>) -> Result<Self, InspectError> {
        let architecture = program.kernel().architecture();
        let Some(stacks) = architecture.stacks else {
            return Err(InspectError::Unsupported {
                what: "stacks",
                found: format!("of {}", architecture.name),
                known: "those of other architectures",
            });
        };
        Ok(Self {
            program,
            unwind: stacks.of(program),
            online: online_cpus(program, &mut Vec::new()),
        })
    }

    /// The reason why frames are found only by frame pointers, and are unreliable; `None` if
    /// they are found in the architecture's usual way.
    pub fn without_tables(&self) -> Option<&str> {
        self.unwind.without_tables()
    }

    /// Unwinds the stack of a task: of a running one by its CPU's saved registers, of a
    /// sleeping one by its saved context.
    pub fn task(&self, task: &Task) -> Trace {
        let cpu = task.cpu.map(|cpu| cpu as usize).filter(|cpu| {
            task.on_cpu
                && current_task(self.program, *cpu).is_ok_and(|current| current == task.address)
        });
        match cpu {
            Some(cpu) => self.cpu(cpu),
            None => match self.unwind.of_sleeper(self.program, task.address) {
                Ok(walk) => trace::all(self.program, walk),
                Err(Reason(reason)) => Trace::none(reason),
            },
        }
    }

    /// The online CPUs.
    pub fn cpus(&self) -> &[usize] {
        &self.online
    }

    /// Unwinds the stack of a CPU.
    pub fn cpu(&self, cpu: usize) -> Trace {
        let unwind = self.unwind.as_ref();
        match notes::of_cpu(self.program, unwind, cpu, &self.online) {
            Some(walk) => trace::all(self.program, walk),
            None => Trace::none(format!("CPU {cpu} left no registers")),
        }
    }
}

/// The CPU that panicked; `None` if none did.
pub fn panic_cpu(program: &Program) -> Option<usize> {
    // An atomic_t, initially -1 (PANIC_CPU_INVALID); since 4.5 (commit 1717f2096b54).
    let cpu = program.variable("panic_cpu", 4).ok()? as u32;
    usize::try_from(cpu.cast_signed()).ok()
}
