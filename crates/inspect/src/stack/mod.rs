//! Which functions a task is in: its stack, by the kernel's own ORC tables.

pub mod orc;
pub mod registers;
mod unwind;

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::program::Program;
use crate::tasks::{Task, current_task, hexadecimal, online_cpus};
use orc::Orc;
use registers::{Registers, of_cpu, of_sleeper};

/// What could have been called: the kernel's stacks have 16 KiB, and a frame 8 bytes
/// or more.
const MOST_FRAMES: usize = 4096;

/// One function of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The instruction it goes on with.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// The function; `None` if the address is in none that has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Bytes from the function's first instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Bytes of the function, up to the next symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The module it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Its stack pointer.
    #[serde(serialize_with = "hexadecimal")]
    pub sp: VirtAddr,
    /// Whether it was interrupted there; else it called the frame before.
    pub interrupted: bool,
    /// Whether the tables lead to it; else it was found by a frame pointer, which may
    /// be something else.
    pub sure: bool,
}

/// The functions that a task is in, the innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// They.
    pub frames: Vec<Frame>,
    /// Why there may be more; `None` if the end is where the kernel was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// Unwinds stacks of one kernel.
pub struct Unwinder<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    /// Its tables, or why there are none.
    orc: Result<Orc, String>,
    online: Vec<usize>,
}

impl<'p, 'k, 's> Unwinder<'p, 'k, 's> {
    /// One for the kernel of `program`.
    ///
    /// # Errors
    /// Its architecture's stacks are not known.
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
            // Tables that cannot be read are not worth less than none.
            orc: Orc::of(program).map_err(|error| error.to_string()),
            online: online_cpus(program, &mut Vec::new()),
        })
    }

    /// Why frames go by frame pointers alone, and are not sure; `None` if they go by
    /// the kernel's tables.
    pub fn without_tables(&self) -> Option<&str> {
        self.orc.as_ref().err().map(String::as_str)
    }

    /// The stack of a task: of one that is on a CPU, by the registers that the CPU
    /// left, else by what the task itself put aside.
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

    /// The CPUs that are on line.
    pub fn cpus(&self) -> &[usize] {
        &self.online
    }

    /// The stack on a CPU.
    pub fn cpu(&self, cpu: usize) -> Result<Trace, InspectError> {
        Ok(match of_cpu(self.program, cpu, &self.online)? {
            Some(registers) => self.from(&registers, true),
            None => Trace {
                frames: Vec::new(),
                cut: Some(format!("CPU {cpu} left no registers")),
            },
        })
    }

    /// From these registers on; they are all there or only a sleeper's.
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

/// The CPU that gave up, in panic() or on the way there; `None` if none did.
pub fn panic_cpu(program: &Program) -> Option<usize> {
    // An atomic_t, -1 (PANIC_CPU_INVALID) until then; since 4.5 (commit 1717f2096b54).
    let cpu = program.variable("panic_cpu", 4).ok()? as u32;
    usize::try_from(cpu.cast_signed()).ok()
}

/// What the address is in. After a call it is the call's instruction that counts: the
/// next one may be of another function, where nothing comes back from what was called.
fn frame(program: &Program, address: VirtAddr, sp: VirtAddr, interrupted: bool) -> Frame {
    let back = u64::from(!interrupted);
    let found = program.symbol_at(VirtAddr(address.0.wrapping_sub(back)));
    Frame {
        address,
        symbol: found.map(|found| found.symbol.name.to_owned()),
        offset: found.map(|found| found.offset.saturating_add(back)),
        size: found.and_then(|found| found.size),
        module: found.and_then(|found| found.module).map(str::to_owned),
        sp,
        interrupted,
        sure: true,
    }
}
