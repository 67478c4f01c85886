//! Finding: a CPU on which nothing else could run for long.
//!
//! Relies on the states of CPUs (`cpu_states`): the watchdog's thread, of the highest priority,
//! runs every few seconds and notes the time. After a panic, which stops the CPUs, the log counts.

use super::cpu_states::CpuState;
use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::hard_lockup::waits_for_cpu;
use crate::crash::EventKind;
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "soft-lockup";
/// The watchdog's thread runs every four seconds, unless the threshold is changed.
const LONG_NSEC: u64 = 10_000_000_000;

/// A finding for each such CPU.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let crash = &evidence.log().crash;
    if crash.panic.is_some() {
        let cause = crash.cause.as_ref();
        let is_lockup = |event: &&crate::Event| {
            event.kind == EventKind::Lockup && event.message.contains("soft lockup")
        };
        return Ok(cause.filter(is_lockup).map(of_log).into_iter().collect());
    }
    let states = evidence.cpus()?.iter();
    let is_stuck = |state: &&CpuState| {
        let long = state.without_switch.is_some_and(|since| since >= LONG_NSEC);
        // Without a tick, it is a hard lockup, or the watchdog could not look.
        !state.idle && state.in_kernel() && long && state.without_tick < LONG_NSEC / 2
    };
    Ok(states
        .filter(is_stuck)
        .map(|state| of_cpu(evidence, state))
        .collect())
}

fn of_cpu(evidence: &Evidence, state: &CpuState) -> Finding {
    let since = state.without_switch.unwrap_or(0);
    let weight = if waits_for_cpu(state) { 78 } else { 88 };
    let title = format!(
        "CPU {} has let nothing else run for {}; its task {} is in {}",
        state.cpu,
        seconds(since),
        state.task,
        state.place()
    );
    let mut finding = Finding::new(KIND, weight, Sure::Certain, title)
        .because(format!("its stack: {}", state.stack()))
        .because("the watchdog's thread of that CPU has not run since");
    if let Some(runs) = state.runs_for {
        finding = finding.because(format!("the task got the CPU {} ago", seconds(runs)));
    }
    if let Some(frame) = state.trace.frames.first() {
        finding = finding.place(evidence.program, "instruction", frame.address);
    }
    finding
        .cpu(state.cpu)
        .task(&state.task)
        .more("bigiron info --backtrace --run-queues DUMP")
}

fn of_log(event: &crate::Event) -> Finding {
    let place = event
        .instruction
        .as_deref()
        .unwrap_or("an unknown function");
    let title = format!("a CPU let nothing else run, in {place}: {}", event.message);
    let mut finding = Finding::new(KIND, 88, Sure::Certain, title)
        .because(format!("called by {}", event.trace.join(" < ")));
    if let Some(cpu) = event.cpu {
        finding = finding.cpu(cpu as usize);
    }
    finding.more("bigiron dmesg DUMP")
}
