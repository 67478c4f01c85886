//! Finding: softirqs that take a CPU all the time, so that the kernel has its thread ksoftirqd
//! execute them.
//!
//! Relies on the states of CPUs (`cpu_states`), on the per-CPU variable `ksoftirqd`
//! (kernel/softirq.c) and its `se.sum_exec_runtime` and `se.avg.util_avg`, on the pending
//! softirqs (irq_cpustat_t or pcpu_hot), and on the queues of tasklets (`tasklet_vec`,
//! `tasklet_hi_vec`).

use bigiron_format::VirtAddr;

use super::cpu_states::CpuState;
use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use crate::error::InspectError;
use crate::interrupts::SOFT;
use crate::program::Program;
use crate::waits::frames::{function, place};

/// Kind.
pub const KIND: &str = "softirq-storm";
/// The thread is a busy one if it had its CPU for so long, and in the last time, of 1024 parts, so
/// much of it (an average over some 30 milliseconds; kernel/sched/pelt.c).
const BUSY_NSEC: u64 = 5_000_000_000;
const BUSY_PARTS: u64 = 800;
/// Functions that call the handlers of softirqs, and those of tasklets.
const HANDLES: [&str; 2] = ["handle_softirqs", "__do_softirq"];
const OF_TASKLETS: &str = "tasklet_";
/// Maximum number of tasklets in a queue.
const MAX_TASKLETS: usize = 64;

/// A finding for each such CPU.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    if evidence.log().crash.panic.is_some() {
        return Ok(Vec::new());
    }
    let states = evidence.cpus()?.iter();
    let found = states.map(|state| of_cpu(evidence, state));
    Ok(found
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}

fn of_cpu(evidence: &Evidence, state: &CpuState) -> Result<Option<Finding>, InspectError> {
    let program = evidence.program;
    let thread = program.number(program.per_cpu("ksoftirqd", state.cpu)?, 8)?;
    if state.task.address.0 != thread {
        return Ok(None);
    }
    let value = |path| program.value(VirtAddr(thread), "task_struct", path);
    let had = value("se.sum_exec_runtime")?;
    let parts = value("se.avg.util_avg")?;
    let pending = pending(program, state.cpu)?;
    if had < BUSY_NSEC || parts < BUSY_PARTS {
        return Ok(None);
    }
    let tasklets = tasklets(program, state.cpu);
    let handler = handler(state);
    let name = match (&handler, tasklets.first()) {
        (Some(handler), _) => format!(", now in {handler}"),
        (None, Some(tasklet)) => format!(", with the tasklet {tasklet}"),
        (None, None) => String::new(),
    };
    let title = format!(
        "softirqs take CPU {} all the time{name}; its thread {} has had it for {}",
        state.cpu,
        state.task,
        seconds(had)
    );
    let mut finding = Finding::new(KIND, 72, Sure::Certain, title)
        .because(format!("its stack: {}", state.stack()))
        .because(format!(
            "the thread had {} % of the CPU of late (se.avg.util_avg)",
            parts.min(1024) * 100 / 1024
        ));
    if !pending.is_empty() {
        finding = finding.because(format!("softirqs that wait: {}", pending.join(", ")));
    }
    if let Some(handled) = most(program, state.cpu) {
        finding = finding.because(handled);
    }
    if !tasklets.is_empty() {
        finding = finding.because(format!("tasklets that wait: {}", tasklets.join(", ")));
    }
    Ok(Some(
        finding
            .cpu(state.cpu)
            .task(&state.task)
            .more("bigiron info --irq --run-queues --backtrace DUMP"),
    ))
}

/// The function that a softirq, or a tasklet, has called.
fn handler(state: &CpuState) -> Option<String> {
    let frames = &state.trace.frames;
    let calls = |name: &str| HANDLES.iter().any(|known| name.starts_with(known));
    let outer = frames.iter().position(|frame| calls(function(frame)))?;
    let inner = frames.get(..outer)?.iter().rev();
    let mut own = inner.skip_while(|frame| function(frame).starts_with(OF_TASKLETS));
    own.next().map(place)
}

/// The names of the softirqs that are raised on a CPU.
fn pending(program: &Program, cpu: usize) -> Result<Vec<&'static str>, InspectError> {
    // In pcpu_hot since 6.2 (commit 7443b296e699).
    let bits = match program.per_cpu("pcpu_hot", cpu) {
        Ok(at) => program.value(at, "pcpu_hot", "softirq_pending")?,
        Err(_) => {
            let at = program.per_cpu("irq_stat", cpu)?;
            program.value(at, "irq_cpustat_t", "__softirq_pending")?
        }
    };
    let names = SOFT.iter().enumerate();
    let set = names.filter(|(bit, _)| bits >> bit & 1 != 0);
    Ok(set.map(|(_, name)| *name).collect())
}

/// Says which softirq the CPU has had most often.
fn most(program: &Program, cpu: usize) -> Option<String> {
    let counts = program.per_cpu("kstat", cpu).ok()?;
    let counts = program.member(counts, "kernel_stat", "softirqs").ok()?;
    let read = |number: usize| {
        let at = program.plus(counts, 4 * number as u64).ok()?;
        program.number(at, 4).ok()
    };
    let all = SOFT.iter().enumerate();
    let all = all.filter_map(|(number, name)| Some((read(number)?, *name)));
    let (count, name) = all.max()?;
    Some(format!("most of them were {name}: {count} since boot"))
}

/// The functions of the tasklets in a CPU's queues.
fn tasklets(program: &Program, cpu: usize) -> Vec<String> {
    let mut found = Vec::new();
    for queue in ["tasklet_hi_vec", "tasklet_vec"] {
        // What cannot be read has no names.
        let _ = add_tasklets(program, cpu, queue, &mut found);
    }
    found
}

fn add_tasklets(
    program: &Program,
    cpu: usize,
    queue: &str,
    found: &mut Vec<String>,
) -> Result<(), InspectError> {
    let queue = program.per_cpu(queue, cpu)?;
    let mut at = program.pointer(queue, "tasklet_head", "head")?;
    while at.0 != 0 && found.len() < MAX_TASKLETS {
        // The functions of both kinds share their place.
        let function = program.pointer(at, "tasklet_struct", "func")?;
        if let Some(symbol) = program.symbol_at(function) {
            found.push(symbol.name());
        }
        at = program.pointer(at, "tasklet_struct", "next")?;
    }
    Ok(())
}
