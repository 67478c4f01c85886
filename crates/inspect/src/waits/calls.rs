//! CPUs that wait until another one has called a function for them (kernel/smp.c).
//!
//! A CPU asks by a struct __call_single_data that it puts into the other one's `call_single_queue`,
//! and spins until the flag CSD_FLAG_LOCK is gone. smp_call_function_single has it on its stack;
//! smp_call_function_many_cond has one for each CPU in the per-CPU variable `cfd_data`.

use std::ops::Range;

use bigiron_format::VirtAddr;
use serde::Serialize;

use super::frames::{function, place};
use super::task_name::TaskName;
use crate::error::InspectError;
use crate::json::hexadecimal;
use crate::program::Program;
use crate::stack::{Frame, Trace, Unwinder};
use crate::tasks::{current_task, task_at};

/// CSD_FLAG_LOCK, and the kinds of requests that are calls (CSD_TYPE_ASYNC, CSD_TYPE_SYNC):
/// others in the queue are wake-ups and irq_works (include/linux/smp_types.h).
const LOCKED: u64 = 1;
const TYPE: u64 = 0xf0;
const CALLS: [u64; 2] = [0, 0x10];
/// Maximum number of requests in the queue of a CPU: each CPU has one for all it asks at once, and
/// tasks have more.
const MAX_QUEUED: usize = 64 << 10;
/// Frames in which a CPU that waits is, and functions shown of one that does not answer.
const MAX_FRAMES: usize = 12;
const SHOWN: usize = 4;
/// Structs.
const DATA: &str = "__call_single_data";

/// A call that a CPU waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The CPU that waits.
    pub cpu: usize,
    /// Its task.
    pub task: TaskName,
    /// The CPU that is to call the function.
    pub target: usize,
    /// Its task.
    pub target_task: TaskName,
    /// What that one does: the functions that it is in.
    pub does: Vec<String>,
    /// The function to be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Address of the request, a struct __call_single_data.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

/// Formats as `CPU 0 (sh (PID 87)) waits until CPU 1 (cat (PID 88)) has called do_flush_tlb_all`.
impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "CPU {} ({}) waits until CPU {} ({}) has called {}",
            self.cpu,
            self.task,
            self.target,
            self.target_task,
            self.function.as_deref().unwrap_or("an unknown function")
        )
    }
}

/// A CPU, and what it does.
struct Cpu {
    number: usize,
    task: TaskName,
    trace: Trace,
}

impl Cpu {
    fn of(program: &Program, unwinder: &Unwinder, number: usize) -> Result<Self, InspectError> {
        let task = task_at(program, current_task(program, number)?)?;
        Ok(Self {
            number,
            task: TaskName::of(&task),
            trace: unwinder.cpu(number),
        })
    }

    fn is_in(&self, beginning: &str) -> bool {
        let mut frames = self.trace.frames.iter().take(MAX_FRAMES);
        frames.any(|frame| frame.sure && function(frame).starts_with(beginning))
    }

    /// The part of its stack that has the frames where it waits.
    fn stack(&self) -> Range<u64> {
        let at = |frame: Option<&Frame>| frame.map_or(0, |frame| frame.sp.0);
        let frames = &self.trace.frames;
        let last = frames.get(MAX_FRAMES).or(frames.last());
        at(frames.first())..at(last)
    }
}

/// Finds the calls that have not been made. A kernel before 5.9 has other structures.
pub fn unanswered(program: &Program, unwinder: &Unwinder) -> Result<Vec<Call>, InspectError> {
    let cpus = unwinder.cpus().iter();
    let cpus: Vec<Cpu> = cpus
        .filter_map(|cpu| Cpu::of(program, unwinder, *cpu).ok())
        .collect();
    let mut found = Vec::new();
    for cpu in &cpus {
        if cpu.is_in("smp_call_function_many") {
            for (target, request) in of_many(program, cpu, &cpus)? {
                found.push(call(program, cpu, target, request)?);
            }
        }
        if cpu.is_in("smp_call_function_single") {
            for (target, request) in of_single(program, cpu, &cpus)? {
                found.push(call(program, cpu, target, request)?);
            }
        }
    }
    Ok(found)
}

/// The requests of smp_call_function_many_cond that are not answered.
fn of_many<'c>(
    program: &Program,
    cpu: &Cpu,
    cpus: &'c [Cpu],
) -> Result<Vec<(&'c Cpu, VirtAddr)>, InspectError> {
    let data = program.per_cpu("cfd_data", cpu.number)?;
    // `csd` until 5.11, and since 6.4 again; between them it is the first member of a struct
    // cfd_percpu.
    let member = match program.has("call_function_data", "pcpu") {
        true => "pcpu",
        false => "csd",
    };
    let requests = program.pointer(data, "call_function_data", member)?;
    let mut found = Vec::new();
    for target in cpus.iter().filter(|other| other.number != cpu.number) {
        let request = program.per_cpu_at(requests, target.number)?;
        if is_call(program, request)? {
            found.push((target, request));
        }
    }
    Ok(found)
}

/// The requests that are on the stack of `cpu` and in the queues of others.
fn of_single<'c>(
    program: &Program,
    cpu: &Cpu,
    cpus: &'c [Cpu],
) -> Result<Vec<(&'c Cpu, VirtAddr)>, InspectError> {
    let stack = cpu.stack();
    let mut found = Vec::new();
    for target in cpus.iter().filter(|other| other.number != cpu.number) {
        for request in queued(program, target.number)? {
            if stack.contains(&request.0) && is_call(program, request)? {
                found.push((target, request));
            }
        }
    }
    Ok(found)
}

/// The requests in a CPU's queue, an llist (include/linux/llist.h).
fn queued(program: &Program, cpu: usize) -> Result<Vec<VirtAddr>, InspectError> {
    let link = program.locate(DATA, "node.llist")?.offset;
    let queue = program.per_cpu("call_single_queue", cpu)?;
    let mut at = program.pointer(queue, "llist_head", "first")?;
    let mut found = Vec::new();
    while at.0 != 0 && found.len() < MAX_QUEUED {
        found.push(VirtAddr(at.0.wrapping_sub(link)));
        at = program.pointer(at, "llist_node", "next")?;
    }
    Ok(found)
}

fn is_call(program: &Program, request: VirtAddr) -> Result<bool, InspectError> {
    let flags = program.value(request, DATA, "node.u_flags")?;
    Ok(flags & LOCKED != 0 && CALLS.contains(&(flags & TYPE)))
}

fn call(
    program: &Program,
    cpu: &Cpu,
    target: &Cpu,
    request: VirtAddr,
) -> Result<Call, InspectError> {
    let function = program.pointer(request, DATA, "func")?;
    let frames = target.trace.frames.iter().take(SHOWN);
    Ok(Call {
        cpu: cpu.number,
        task: cpu.task.clone(),
        target: target.number,
        target_task: target.task.clone(),
        does: frames.map(place).collect(),
        function: program.symbol_at(function).map(|found| found.name()),
        address: request,
    })
}
