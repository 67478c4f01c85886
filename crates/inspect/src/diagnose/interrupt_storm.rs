//! Finding: an interrupt that comes again at once, so that its CPU does nothing else.
//!
//! Relies on the states of CPUs (`cpu_states`), on the counts of interrupts (`interrupts`), and on
//! the per-CPU queue of irq_works (`raised_list`, kernel/irq_work.c).

use bigiron_format::VirtAddr;

use super::cpu_states::CpuState;
use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::LONG_NSEC;
use crate::error::InspectError;
use crate::interrupts::Interrupts;
use crate::program::Program;
use crate::waits::frames::{function, place};

/// Kind.
pub const KIND: &str = "interrupt-storm";
/// Interrupts of one kind in each second since boot that are a storm, if the CPU does nothing
/// else. A device causes as many while it works.
const MANY: u64 = 5000;
/// Entries of interrupts (arch/x86/include/asm/idtentry.h), and their names in /proc/interrupts.
const ENTRIES: [(&str, &str); 5] = [
    ("asm_sysvec_irq_work", "IWI"),
    ("asm_sysvec_spurious_apic", "SPU"),
    ("asm_sysvec_thermal", "TRM"),
    ("asm_sysvec_threshold", "THR"),
    ("asm_common_interrupt", ""),
];
/// Functions between an entry and the handler.
const BETWEEN: [&str; 8] = [
    "sysvec_",
    "__sysvec_",
    "common_interrupt",
    "__common_interrupt",
    "irq_work_",
    "handle_",
    "__handle_",
    "generic_handle_",
];
/// Maximum number of irq_works in a queue.
const MAX_WORKS: usize = 64;

/// A finding for each such CPU.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    if evidence.log().crash.panic.is_some() {
        return Ok(Vec::new());
    }
    let is_stuck = |state: &&CpuState| {
        let without = state.without_switch.unwrap_or(0);
        entry(state).is_some()
            && ((!state.idle && state.without_tick >= LONG_NSEC / 2) || without >= LONG_NSEC)
    };
    let stuck: Vec<&CpuState> = evidence.cpus()?.iter().filter(is_stuck).collect();
    if stuck.is_empty() {
        return Ok(Vec::new());
    }
    let interrupts = Interrupts::of(&evidence.program.renewed())?;
    let up = evidence.jiffies()?.clock;
    let found = stuck.into_iter();
    Ok(found
        .filter_map(|state| finding(evidence, state, &interrupts, up))
        .collect())
}

/// Returns the place in the stack, and the name, of the entry through which a CPU is in an
/// interrupt.
fn entry(state: &CpuState) -> Option<(usize, &'static str)> {
    let frames = state.trace.frames.iter().enumerate();
    let mut found = frames.filter_map(|(index, frame)| {
        let name = function(frame);
        let (_, kind) = ENTRIES.iter().find(|(known, _)| name.starts_with(known))?;
        Some((index, *kind))
    });
    found.next()
}

fn finding(
    evidence: &Evidence,
    state: &CpuState,
    interrupts: &Interrupts,
    up: u64,
) -> Option<Finding> {
    const SECOND: u64 = 1_000_000_000;
    let (index, kind) = entry(state)?;
    let column = interrupts.cpus.iter().position(|cpu| *cpu == state.cpu)?;
    let (name, count, handlers) = match kind {
        "" => of_line(interrupts, column)?,
        kind => {
            let counts = interrupts.of_cpus.iter().find(|found| found.name == kind)?;
            (kind.to_owned(), *counts.counts.get(column)?, Vec::new())
        }
    };
    if count / (up / SECOND).max(1) < MANY {
        return None;
    }
    let inner = state.trace.frames.get(..index)?.iter().rev();
    let mut own = inner.skip_while(|frame| {
        let name = function(frame);
        BETWEEN.iter().any(|known| name.starts_with(known))
    });
    let works = works(evidence.program, state.cpu).unwrap_or_default();
    let who = own.next().map(place);
    let who = who.or_else(|| works.first().or(handlers.first()).cloned());
    let who = who.unwrap_or_else(|| "an unknown function".into());
    let title = format!(
        "CPU {} does nothing but take the interrupt {name}, which {who} handles: {count} times in {}",
        state.cpu,
        seconds(up)
    );
    let mut finding = Finding::new(KIND, 95, Sure::Certain, title)
        .because(format!("its stack: {}", state.stack()))
        .because(format!(
            "it has taken no timer's interrupt for {}, and had {} interrupts {name} in each second \
             since boot",
            seconds(state.without_tick),
            count / (up / SECOND).max(1)
        ));
    if !works.is_empty() {
        finding = finding.because(format!("irq_works that wait: {}", works.join(", ")));
    }
    Some(
        finding
            .cpu(state.cpu)
            .task(&state.task)
            .more("bigiron info --irq --backtrace --run-queues DUMP"),
    )
}

/// The interrupt with a descriptor that a CPU took most often: name, count, handlers.
fn of_line(interrupts: &Interrupts, column: usize) -> Option<(String, u64, Vec<String>)> {
    let lines = interrupts.lines.iter();
    let counted = lines.filter_map(|line| Some((*line.counts.get(column)?, line)));
    let (count, line) = counted.max_by_key(|(count, _)| *count)?;
    let handlers = line
        .actions
        .iter()
        .filter_map(|action| action.handler.clone());
    Some((line.number.to_string(), count, handlers.collect()))
}

/// The functions of the irq_works that a CPU has to execute (an llist).
fn works(program: &Program, cpu: usize) -> Result<Vec<String>, InspectError> {
    let link = program.locate("irq_work", "node.llist")?.offset;
    let queue = program.per_cpu("raised_list", cpu)?;
    let mut at = program.pointer(queue, "llist_head", "first")?;
    let mut found = Vec::new();
    while at.0 != 0 && found.len() < MAX_WORKS {
        let work = VirtAddr(at.0.wrapping_sub(link));
        let function = program.pointer(work, "irq_work", "func")?;
        if let Some(symbol) = program.symbol_at(function) {
            found.push(symbol.name());
        }
        at = program.pointer(at, "llist_node", "next")?;
    }
    Ok(found)
}
