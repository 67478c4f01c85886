//! Finding: an RCU grace period that does not end, and who holds it up.
//!
//! Relies on `rcu_state` (`gp_seq`, `gp_start`), on the leaves of struct rcu_node (`qsmask`,
//! `grplo`, `grphi`, `level`, `gp_tasks`, `blkd_tasks`; kernel/rcu/tree.h) and on
//! `task_struct.rcu_read_lock_nesting` (CONFIG_PREEMPT_RCU).

use bigiron_format::VirtAddr;
use bigiron_kernel::types::Shape;

use super::cpu_states::CpuState;
use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use crate::error::InspectError;
use crate::program::Program;
use crate::tasks::{Task, task_at};
use crate::waits::TaskName;

/// Kind.
pub const KIND: &str = "rcu-reader";
const STALL: &str = "rcu-stall";
/// RCU_SEQ_STATE_MASK: a grace period is going on if a bit of it is set.
const STATE: u64 = 3;
/// The kernel itself warns after 21 seconds (6 before 3.12).
const LONG_NSEC: u64 = 10_000_000_000;
/// Maximum number of struct rcu_node: a leaf has at least 2 of at most 8192 CPUs.
const MAX_NODES: u64 = 8192;
/// Maximum number of tasks that block a leaf.
const MAX_TASKS: usize = 4096;

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let program = evidence.program;
    let state = program.symbol("rcu_state")?;
    if program.value(state, "rcu_state", "gp_seq")? & STATE == 0 {
        return Ok(Vec::new());
    }
    let start = program.value(state, "rcu_state", "gp_start")?;
    let age = evidence.jiffies()?.since(start);
    let Some(age) = age.filter(|age| *age >= LONG_NSEC) else {
        return Ok(Vec::new());
    };
    let mut blockers = Vec::new();
    for node in leaves(program, state)? {
        blockers.extend(of_node(program, node)?);
    }
    let states = evidence.cpus()?;
    let findings = blockers.iter().filter_map(|blocker| match blocker {
        Blocker::Cpu(cpu) => {
            let state = states.iter().find(|state| state.cpu == *cpu)?;
            of_cpu(program, state, age)
        }
        Blocker::Task(task) => Some(of_task(task, age)),
    });
    Ok(findings.collect())
}

/// What a grace period waits for.
enum Blocker {
    /// A CPU that has not passed a quiescent state.
    Cpu(usize),
    /// A task that was preempted while it read.
    Task(Box<Task>),
}

fn leaves(program: &Program, state: VirtAddr) -> Result<Vec<VirtAddr>, InspectError> {
    let first = program.member(state, "rcu_state", "node")?;
    let member = program.locate("rcu_state", "node")?;
    let count = match program.shape(member.type_id)? {
        Shape::Array(_, count) => count.min(MAX_NODES),
        _ => 0,
    };
    let size = program.size_of("rcu_node")?.max(1);
    let nodes = (0..count).map(|index| VirtAddr(first.0.wrapping_add(index * size)));
    let nodes: Vec<VirtAddr> = nodes.collect();
    let level = |node: &VirtAddr| program.value(*node, "rcu_node", "level").unwrap_or(0);
    let deepest = nodes.iter().map(level).max().unwrap_or(0);
    Ok(nodes
        .into_iter()
        .filter(|node| level(node) == deepest)
        .collect())
}

fn of_node(program: &Program, node: VirtAddr) -> Result<Vec<Blocker>, InspectError> {
    let value = |path| program.value(node, "rcu_node", path);
    let (mask, first) = (value("qsmask")?, value("grplo")?);
    let cpus = (0..64).filter(|bit| mask >> bit & 1 != 0);
    let mut found: Vec<Blocker> = cpus
        .map(|bit| Blocker::Cpu((first + bit) as usize))
        .collect();
    let blocking = value("gp_tasks").unwrap_or(0);
    if blocking != 0 {
        let head = program.member(node, "rcu_node", "blkd_tasks")?;
        let walk = program.list(head, "task_struct", "rcu_node_entry", MAX_TASKS)?;
        let link = program.locate("task_struct", "rcu_node_entry")?.offset;
        let from = VirtAddr(blocking.wrapping_sub(link));
        let tasks = walk.items.into_iter().skip_while(|task| *task != from);
        let tasks = tasks.filter_map(|task| task_at(program, task).ok());
        found.extend(tasks.map(|task| Blocker::Task(Box::new(task))));
    }
    Ok(found)
}

fn of_cpu(program: &Program, state: &CpuState, age: u64) -> Option<Finding> {
    if state.idle {
        return None;
    }
    let address = state.task.address;
    let nesting = program.value(address, "task_struct", "rcu_read_lock_nesting");
    let reads = nesting.is_ok_and(|nesting| nesting as u32 as i32 > 0);
    let (kind, weight, sure, does) = match reads {
        true => (
            KIND,
            90,
            Sure::Certain,
            "is in an RCU reader that does not end",
        ),
        false => (STALL, 60, Sure::Likely, "has not passed a quiescent state"),
    };
    let title = format!(
        "an RCU grace period has lasted {}: CPU {}, with {}, {does}, in {}",
        seconds(age),
        state.cpu,
        state.task,
        state.place()
    );
    let mut finding = Finding::new(kind, weight, sure, title)
        .because(format!(
            "CPU {} is missing in the grace period (rcu_node.qsmask)",
            state.cpu
        ))
        .because(format!("its stack: {}", state.stack()));
    if reads {
        finding = finding.because("rcu_read_lock_nesting of its task is not 0");
    }
    Some(
        finding
            .cpu(state.cpu)
            .task(&state.task)
            .more("bigiron info --backtrace --waits DUMP"),
    )
}

fn of_task(task: &Task, age: u64) -> Finding {
    let name = TaskName::of(task);
    let title = format!(
        "an RCU grace period has lasted {}: {name} was preempted in an RCU reader",
        seconds(age)
    );
    Finding::new(KIND, 90, Sure::Certain, title)
        .because("the grace period waits for it (rcu_node.gp_tasks)")
        .task(&name)
        .more("bigiron info --stacks --run-queues DUMP")
}
