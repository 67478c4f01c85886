//! The run queues of the scheduler (struct rq, kernel/sched/sched.h): what each CPU runs, and
//! what waits for it.

mod at_panic;
mod queued;
mod steal;

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::json::hexadecimal;
use crate::program::Program;
pub use at_panic::AtPanic;
use queued::Finder;
pub use queued::Queued;
pub(crate) use steal::steal;

/// The run queue of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunQueue {
    /// CPU number.
    pub cpu: usize,
    /// The current task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<Queued>,
    /// True if that is the idle task.
    pub idle: bool,
    /// Nanoseconds since the current task got the CPU; `None` if the kernel does not note that
    /// (CONFIG_SCHED_INFO).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_for: Option<u64>,
    /// Number of runnable tasks, including the current one.
    pub running: u64,
    /// Load weight of the fair tasks: 1024 for each of nice value 0. A group counts as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_load: Option<u64>,
    /// Its clock, in nanoseconds.
    pub clock: u64,
    /// Nanoseconds that its clock lags behind the most advanced one: it stops while the CPU is
    /// idle, or hangs.
    pub behind: u64,
    /// True if the tick is stopped, as on idle CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick_stopped: Option<bool>,
    /// Number of context switches.
    pub switches: u64,
    /// Nanoseconds since boot in which the hypervisor ran others instead, as it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steal: Option<u64>,
    /// What became of the CPU when the kernel panicked; `None` if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_panic: Option<AtPanic>,
    /// Waiting deadline tasks.
    pub deadline: Vec<Queued>,
    /// Real-time tasks, including the current one if it is one.
    pub real_time: Vec<Queued>,
    /// Other waiting tasks, in their order within each group.
    pub fair: Vec<Queued>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// Address of its struct rq.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

/// Returns the run queues of the online CPUs.
///
/// # Errors
///
/// The kernel has no readable run queues.
pub fn run_queues(program: &Program) -> Result<Vec<RunQueue>, InspectError> {
    let mut gaps = Vec::new();
    let cpus = online_cpus(program, &mut gaps);
    let mut queues: Vec<RunQueue> = cpus
        .iter()
        .map(|cpu| queue(program, *cpu))
        .collect::<Result<_, _>>()?;
    if let Some(first) = queues.first_mut() {
        first.gaps.extend(gaps);
    }
    let furthest = queues.iter().map(|queue| queue.clock).max();
    for queue in &mut queues {
        let furthest = furthest.unwrap_or(queue.clock);
        queue.behind = furthest.saturating_sub(queue.clock);
        // When it got the CPU, until here.
        queue.current_for = queue.current_for.map(|at| furthest.saturating_sub(at));
    }
    Ok(queues)
}

fn queue(program: &Program, cpu: usize) -> Result<RunQueue, InspectError> {
    let address = program.per_cpu("runqueues", cpu)?;
    let current = program.pointer(address, "rq", "curr")?;
    let mut finder = Finder::new(program);
    let described = finder.task(current, false);
    let member = |path: &str| program.member(address, "rq", path);
    finder.fair(member("cfs")?);
    let fair = std::mem::take(&mut finder.found);
    finder.real_time(member("rt")?);
    let real_time = std::mem::take(&mut finder.found);
    // Since 3.14 (commit aab03e05e8f7).
    if let Ok(queue) = member("dl") {
        finder.deadline(queue);
    }
    let deadline = std::mem::take(&mut finder.found);
    Ok(RunQueue {
        cpu,
        current: described,
        current_for: program
            .value(current, "task_struct", "sched_info.last_arrival")
            .ok()
            .filter(|arrival| *arrival != 0),
        idle: current == program.pointer(address, "rq", "idle")?,
        running: program.value(address, "rq", "nr_running")?,
        fair_load: program.value(address, "rq", "cfs.load.weight").ok(),
        clock: program.value(address, "rq", "clock")?,
        behind: 0,
        tick_stopped: tick_stopped(program, cpu),
        switches: program.value(address, "rq", "nr_switches")?,
        steal: steal(program, cpu),
        at_panic: AtPanic::of(program, cpu),
        deadline,
        real_time,
        fair,
        gaps: finder.gaps,
        address,
    })
}

/// tick_cpu_sched (kernel/time/tick-sched.c): a bit field until 6.8, a flag since
/// (commit a478ffb2ae23).
fn tick_stopped(program: &Program, cpu: usize) -> Option<bool> {
    /// TS_FLAG_STOPPED.
    const STOPPED: u64 = 1 << 1;
    let at = program.per_cpu("tick_cpu_sched", cpu).ok()?;
    if let Ok(value) = program.value(at, "tick_sched", "tick_stopped") {
        return Some(value != 0);
    }
    let flags = program.value(at, "tick_sched", "flags").ok()?;
    Some(flags & STOPPED != 0)
}
