//! One process: what it has mapped, and the user registers and stacks of its threads.

mod call_frames;
mod frames;
mod mappings;
mod memory;
pub(crate) mod registers;

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::program::Program;
use crate::tasks::Tasks;
use crate::waits::TaskName;
use frames::{Numbers, Walker};
use memory::UserMemory;

pub use frames::UserFrame;
pub use mappings::Mapping;
pub use registers::UserRegisters;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UserProcess {
    /// Its leader.
    pub task: TaskName,
    /// What it has mapped, by address.
    pub mappings: Vec<Mapping>,
    /// Its threads, the leader first.
    pub threads: Vec<Thread>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Its task.
    pub task: TaskName,
    /// The registers with which it entered the kernel, by the kernel's names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<UserRegisters>,
    /// The functions that it was in, the innermost first.
    pub frames: Vec<UserFrame>,
    /// Why there are no more frames, or no registers.
    pub end: String,
}

impl UserProcess {
    /// Reads the process with the PID `pid`.
    ///
    /// # Errors
    ///
    /// There is no such process, or it has no memory of its own.
    pub fn of(program: &Program, pid: i32) -> Result<Self, InspectError> {
        let Tasks { tasks, .. } = Tasks::of(program)?;
        let not_known = |reason: String| InspectError::NotKnown {
            what: "the process",
            reason,
        };
        let asked = tasks.iter().find(|task| task.pid == pid && !task.idle);
        let asked = asked.ok_or_else(|| not_known(format!("no task has the PID {pid}")))?;
        let memory = program.pointer(asked.address, "task_struct", "mm")?;
        if asked.kernel_thread || memory.0 == 0 {
            let reason = format!("PID {pid} has no user memory: a kernel thread, or one that ends");
            return Err(not_known(reason));
        }
        let leader = tasks.iter().find(|task| task.pid == asked.tgid);
        let mut gaps = Vec::new();
        let mappings = mappings::of(program, memory, &mut gaps)?;
        let mut walker = walker(program, memory, &mappings, &mut gaps);
        let of_process = tasks.iter().filter(|task| task.tgid == asked.tgid);
        let threads = of_process.map(|task| {
            let name = TaskName::of(task);
            // What is on the stack of a CPU that runs it may be of an earlier system call.
            if task.on_cpu {
                return Thread {
                    task: name,
                    registers: None,
                    frames: Vec::new(),
                    end: "it runs on a CPU, whose registers --backtrace shows".into(),
                };
            }
            match UserRegisters::of(program, task.address) {
                Ok(registers) => {
                    let walked = walker.as_mut().map(|walker| walker.frames(&registers));
                    let (frames, end) = walked.unwrap_or_default();
                    Thread {
                        task: name,
                        registers: Some(registers),
                        frames,
                        end,
                    }
                }
                Err(error) => Thread {
                    task: name,
                    registers: None,
                    frames: Vec::new(),
                    end: error.to_string(),
                },
            }
        });
        let threads = threads.collect();
        Ok(Self {
            task: TaskName::of(leader.unwrap_or(asked)),
            threads,
            mappings,
            gaps,
        })
    }
}

fn walker<'w, 'p, 'k, 's>(
    program: &'p Program<'k, 's>,
    memory: VirtAddr,
    mappings: &'w [Mapping],
    gaps: &mut Vec<String>,
) -> Option<Walker<'w, 'p, 'k, 's>> {
    let numbers = Numbers::of(program.kernel().architecture().name);
    match (UserMemory::of(program, memory), numbers) {
        (Ok(memory), Some(numbers)) => Some(Walker::new(memory, mappings, numbers)),
        (Ok(_), None) => {
            gaps.push("stacks of processes are known of x86-64 and arm64".into());
            None
        }
        (Err(error), _) => {
            gaps.push(format!("the memory of the process: {error}"));
            None
        }
    }
}
