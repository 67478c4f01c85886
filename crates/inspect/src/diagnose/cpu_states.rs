//! What each CPU did when the kernel stopped, and for how long.
//!
//! Relies on struct rq (`curr`, `idle`, `clock`), `task_struct.sched_info.last_arrival`
//! (CONFIG_SCHED_INFO), the per-CPU variable `watchdog_touch_ts` (kernel/watchdog.c), and the
//! registers in the CPU's note.

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::program::Program;
use crate::stack::{Trace, Unwinder, interrupts_off};
use crate::tasks::{current_task, task_at};
use crate::waits::TaskName;
use crate::waits::frames::{own_frames, place};

/// The clock of the watchdog: running_clock() >> 30.
const WATCHDOG_SHIFT: u32 = 30;

/// A CPU.
pub struct CpuState {
    /// Number.
    pub cpu: usize,
    /// Its task.
    pub task: TaskName,
    /// True if that is the idle task.
    pub idle: bool,
    /// Its stack.
    pub trace: Trace,
    /// Nanoseconds since the task got the CPU.
    pub runs_for: Option<u64>,
    /// Nanoseconds since the clock of its run queue went on, as each timer's interrupt makes it.
    pub without_tick: u64,
    /// Nanoseconds since the watchdog's thread could run.
    pub without_switch: Option<u64>,
    /// True if its registers have interrupts off.
    pub interrupts_off: Option<bool>,
}

impl CpuState {
    /// Returns true if it was in the kernel, and its stack is known.
    pub fn in_kernel(&self) -> bool {
        !self.trace.frames.is_empty()
    }

    /// The innermost function, in words.
    pub fn place(&self) -> String {
        match self.trace.frames.first() {
            Some(frame) => place(frame),
            None => "an unknown function".into(),
        }
    }

    /// The innermost functions, in words.
    pub fn stack(&self) -> String {
        const SHOWN: usize = 8;
        let frames = own_frames(&self.trace).take(SHOWN);
        frames.map(place).collect::<Vec<_>>().join(" < ")
    }
}

/// Reads the online CPUs. `end` is the time when the kernel stopped, if the log tells it.
pub fn read(program: &Program, end: Option<u64>) -> Result<Vec<CpuState>, InspectError> {
    let unwinder = Unwinder::new(program)?;
    let cpus = online_cpus(program, &mut Vec::new());
    let clock = |cpu: usize| -> Result<u64, InspectError> {
        let queue = program.per_cpu("runqueues", cpu)?;
        program.value(queue, "rq", "clock")
    };
    let clocks = cpus.iter().filter_map(|cpu| clock(*cpu).ok());
    let now = clocks.chain(end).max().unwrap_or(0);
    let states = cpus.iter().map(|cpu| state(program, &unwinder, *cpu, now));
    states.collect()
}

/// Returns false if the watchdog's threads do not run (nowatchdog, or a sysctl): then the time is
/// no evidence. The time itself is 0 in the first second after the start.
fn watches(program: &Program) -> bool {
    let enabled = program.variable("watchdog_enabled", 8);
    let by_user = program.variable("watchdog_user_enabled", 4);
    enabled.is_ok_and(|enabled| enabled != 0) && by_user.is_ok_and(|enabled| enabled != 0)
}

fn state(
    program: &Program,
    unwinder: &Unwinder,
    cpu: usize,
    now: u64,
) -> Result<CpuState, InspectError> {
    let queue = program.per_cpu("runqueues", cpu)?;
    let address = current_task(program, cpu)?;
    let task = task_at(program, address)?;
    let arrival = program
        .value(address, "task_struct", "sched_info.last_arrival")
        .ok();
    let touched = program
        .per_cpu("watchdog_touch_ts", cpu)
        .and_then(|at| program.number(at, 8))
        .ok()
        .filter(|touched| *touched != u64::MAX && watches(program));
    let touched = touched.and_then(|touched| touched.checked_mul(1 << WATCHDOG_SHIFT));
    Ok(CpuState {
        cpu,
        idle: address == program.pointer(queue, "rq", "idle")?,
        task: TaskName::of(&task),
        trace: unwinder.cpu(cpu),
        runs_for: arrival
            .filter(|arrival| *arrival != 0)
            .map(|arrival| now.saturating_sub(arrival)),
        without_tick: now.saturating_sub(program.value(queue, "rq", "clock")?),
        without_switch: touched.map(|touched| now.saturating_sub(touched)),
        interrupts_off: interrupts_off(program, cpu, unwinder.cpus()),
    })
}
