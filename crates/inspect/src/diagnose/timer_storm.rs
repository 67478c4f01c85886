//! Finding: a CPU that does not leave the interrupt of its high-resolution timers, since one of
//! them is due again and again, or its function does not end.
//!
//! Relies on the states of CPUs (`cpu_states`), on the per-CPU variable `hrtimer_bases` (struct
//! hrtimer_cpu_base, hrtimer_clock_base `running` and `active`, hrtimer; kernel/time/hrtimer.c,
//! include/linux/hrtimer.h), on `last_jiffies_update` (kernel/time/tick-sched.c), and on
//! `timer_bases` (kernel/time/timer.c).

use bigiron_format::VirtAddr;
use bigiron_kernel::types::size_of;

use super::cpu_states::CpuState;
use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::LONG_NSEC;
use crate::error::InspectError;
use crate::program::Program;
use crate::waits::frames::function;

/// Kind.
pub const KIND: &str = "timer-storm";
/// The function that calls the timers' functions.
const RUNS: &str = "__hrtimer_run_queues";
/// Structs.
const CPU_BASE: &str = "hrtimer_cpu_base";
const BASE: &str = "hrtimer_clock_base";
/// Maximum number of clocks of a CPU, and of timers of a clock.
const MAX_BASES: u64 = 16;
const MAX_TIMERS: usize = 1 << 16;
/// Timers shown.
const SHOWN: usize = 4;

/// A timer.
struct Timer {
    address: VirtAddr,
    function: String,
    /// Nanoseconds since it was due.
    overdue: Option<u64>,
}

/// A finding for each such CPU.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    if evidence.log().crash.panic.is_some() {
        return Ok(Vec::new());
    }
    let is_in_timers = |state: &&CpuState| {
        let mut frames = state.trace.frames.iter();
        frames.any(|frame| function(frame).starts_with(RUNS))
    };
    let mut found = Vec::new();
    for state in evidence.cpus()?.iter().filter(is_in_timers) {
        found.extend(of_cpu(evidence, state)?);
    }
    Ok(found)
}

fn of_cpu(evidence: &Evidence, state: &CpuState) -> Result<Option<Finding>, InspectError> {
    let program = evidence.program;
    let running = running(program, state.cpu)?;
    let overdue = overdue(program, state.cpu)?;
    // The clock of a run queue goes on as well if another CPU wakes a task on it.
    let most = overdue.first().and_then(|timer| timer.overdue).unwrap_or(0);
    let since = most.max(state.without_tick);
    if since < LONG_NSEC / 2 {
        return Ok(None);
    }
    let timer = running.as_ref().or(overdue.first());
    let name = timer.map_or("an unknown function", |timer| timer.function.as_str());
    let title = format!(
        "CPU {} does not leave the interrupt of its timers: {name} is called for one that is due \
         again and again, or does not end; {} timers are overdue, up to {}",
        state.cpu,
        overdue.len(),
        seconds(since)
    );
    let mut finding = Finding::new(KIND, 96, Sure::Certain, title)
        .because(format!("its stack: {}", state.stack()));
    if let Some(timer) = &running {
        finding = finding
            .because(format!("the timer whose function runs: {timer}"))
            .place(program, "struct hrtimer that runs", timer.address);
    }
    for timer in overdue.iter().take(SHOWN) {
        finding = finding
            .because(format!("a timer of that CPU: {timer}"))
            .place(program, "struct hrtimer", timer.address);
    }
    if let Some(behind) = wheel_behind(program, state.cpu) {
        finding = finding.because(format!(
            "the other timers of that CPU are {behind} jiffies behind (timer_base.clk)"
        ));
    }
    Ok(Some(
        finding
            .cpu(state.cpu)
            .task(&state.task)
            .more("bigiron info --backtrace --run-queues --irq DUMP"),
    ))
}

/// Formats as `rearm [faults], overdue for 12.3 s`.
impl std::fmt::Display for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.overdue {
            Some(overdue) => write!(f, "{}, overdue for {}", self.function, seconds(overdue)),
            None => write!(f, "{}", self.function),
        }
    }
}

impl Timer {
    fn of(program: &Program, address: VirtAddr, now: Option<u64>) -> Result<Self, InspectError> {
        let function = program.pointer(address, "hrtimer", "function")?;
        let name = program.symbol_at(function);
        let expires = program.value(address, "hrtimer", "node.expires")?;
        Ok(Self {
            address,
            function: name.map_or_else(|| function.to_string(), |found| found.name()),
            overdue: now.and_then(|now| now.checked_sub(expires)),
        })
    }
}

/// The clocks of a CPU.
fn bases(program: &Program, cpu: usize) -> Result<Vec<VirtAddr>, InspectError> {
    let of_cpu = program.per_cpu("hrtimer_bases", cpu)?;
    let member = program.locate(CPU_BASE, "clock_base")?;
    let first = program.plus(of_cpu, member.offset)?;
    let each = program.size_of(BASE)?;
    let size = size_of(program.types(), member.type_id)?.unwrap_or(0);
    let count = size.checked_div(each).unwrap_or(0).min(MAX_BASES);
    (0..count)
        .map(|index| program.plus(first, each * index))
        .collect()
}

/// The timer whose function runs on a CPU.
fn running(program: &Program, cpu: usize) -> Result<Option<Timer>, InspectError> {
    for base in bases(program, cpu)? {
        let timer = program.pointer(base, BASE, "running")?;
        if timer.0 != 0 {
            return Timer::of(program, timer, None).map(Some);
        }
    }
    Ok(None)
}

/// The timers of a CPU that were due a second ago, the first ones first.
fn overdue(program: &Program, cpu: usize) -> Result<Vec<Timer>, InspectError> {
    const SECOND: u64 = 1_000_000_000;
    let now = program.variable("last_jiffies_update", 8)?;
    let mut found = Vec::new();
    for base in bases(program, cpu)? {
        // The clocks differ from the monotonic one by their offset.
        let offset = program.value(base, BASE, "offset")?;
        let root = program.member(base, BASE, "active.rb_root.rb_root")?;
        let timers = program.tree(root, "hrtimer", "node.node", MAX_TIMERS)?;
        for at in timers.items {
            let timer = Timer::of(program, at, Some(now.wrapping_add(offset)))?;
            match timer.overdue {
                Some(overdue) if overdue >= SECOND => found.push(timer),
                _ => break,
            }
        }
    }
    found.sort_by_key(|timer| std::cmp::Reverse(timer.overdue));
    Ok(found)
}

/// How far the wheel of a CPU's timers, which are counted in jiffies, is behind.
fn wheel_behind(program: &Program, cpu: usize) -> Option<u64> {
    let base = program.per_cpu("timer_bases", cpu).ok()?;
    let clock = program.value(base, "timer_base", "clk").ok()?;
    let now = program.variable("jiffies", 8).ok()?;
    now.checked_sub(clock)
}
