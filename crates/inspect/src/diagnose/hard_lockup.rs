//! Finding: a CPU that takes no interrupts and does not go on.
//!
//! Relies on the states of CPUs (`cpu_states`), and on the calls that CPUs wait for (`waits`). After a panic, which stops the CPUs, only what
//! the log says counts.

use super::cpu_states::CpuState;
use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "hard-lockup";
/// A busy CPU has a timer's interrupt many times a second.
const LONG_NSEC: u64 = 5_000_000_000;
/// Functions of a CPU that waits for another.
const WAITS_FOR_CPU: [&str; 6] = [
    "smp_call_function",
    "native_queued_spin_lock",
    "queued_spin_lock",
    "_raw_spin_lock",
    "csd_lock",
    "stop_machine",
];

/// A finding for each such CPU.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    if evidence.log().crash.panic.is_some() {
        return Ok(of_log(evidence).into_iter().collect());
    }
    let states = evidence.cpus()?;
    let is_stuck = |state: &&CpuState| {
        !state.idle
            && state.in_kernel()
            && state.without_tick >= LONG_NSEC
            && state.interrupts_off != Some(false)
    };
    let stuck = states.iter().filter(is_stuck);
    Ok(stuck.map(|state| of_cpu(evidence, states, state)).collect())
}

fn of_cpu(evidence: &Evidence, states: &[CpuState], state: &CpuState) -> Finding {
    let (sure, off) = match state.interrupts_off {
        Some(true) => (Sure::Certain, " with interrupts off"),
        _ => (Sure::Likely, ""),
    };
    // A CPU that waits for another is not the cause.
    let weight = if waits_for_cpu(state) { 86 } else { 94 };
    let title = format!(
        "CPU {} is in {}{off} and has taken no timer's interrupt for {}; its task is {}",
        state.cpu,
        state.place(),
        seconds(state.without_tick),
        state.task
    );
    let mut finding = Finding::new(KIND, weight, sure, title)
        .because(format!("its stack: {}", state.stack()))
        .because("the clock of its run queue stands still, and others go on");
    if state.interrupts_off == Some(true) {
        finding = finding.because("the flags in its registers have interrupts off");
    }
    finding = finding.cpu(state.cpu).task(&state.task);
    for other in states.iter().filter(|other| other.cpu != state.cpu) {
        if !other.idle && waits_for_cpu(other) {
            finding = finding
                .because(format!(
                    "CPU {} ({}) waits for another CPU: {}",
                    other.cpu,
                    other.task,
                    other.stack()
                ))
                .cpu(other.cpu)
                .task(&other.task);
        }
    }
    // A kernel whose calls are not known still has its other evidence.
    let calls = evidence.waits().map_or(&[][..], |waits| &waits.calls);
    for call in calls.iter().filter(|call| call.target == state.cpu) {
        finding = finding
            .because(call.to_string())
            .cpu(call.cpu)
            .task(&call.task)
            .place(evidence.program, "__call_single_data", call.address);
    }
    let address = state.trace.frames.first().map(|frame| frame.address);
    if let Some(address) = address {
        finding = finding.place(evidence.program, "instruction", address);
    }
    finding.more("bigiron info --backtrace --run-queues DUMP")
}

/// Returns true if a CPU spins until another one does something.
pub fn waits_for_cpu(state: &CpuState) -> bool {
    let frames = state.trace.frames.iter().take(4);
    frames
        .filter_map(|frame| frame.symbol.as_deref())
        .any(|symbol| WAITS_FOR_CPU.iter().any(|known| symbol.starts_with(known)))
}

/// The detector's own report, of a kernel that panicked.
fn of_log(evidence: &Evidence) -> Option<Finding> {
    let log = evidence.log();
    let is_report = |line: &str| line.contains("Watchdog detected hard LOCKUP on cpu");
    let report = log.last_report(is_report)?;
    let message = report.first()?;
    let event = log.crash.cause.as_ref()?;
    let place = event
        .instruction
        .as_deref()
        .unwrap_or("an unknown function");
    let cpu = message.rsplit(' ').next().and_then(|cpu| cpu.parse().ok());
    let title = format!("a CPU took no interrupts in {place}: {message}");
    let finding =
        Finding::new(KIND, 94, Sure::Certain, title).because(format!("the log: {message}"));
    let finding = match cpu {
        Some(cpu) => finding.cpu(cpu),
        None => finding,
    };
    Some(finding.more("bigiron info --backtrace DUMP"))
}
