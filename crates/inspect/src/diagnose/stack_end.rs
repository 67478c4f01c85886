//! Finding: the last word of a task's stack was overwritten.
//!
//! Relies on `task_struct.stack` and STACK_END_MAGIC (include/uapi/linux/magic.h), which is the
//! lowest word of a stack where task_struct has the thread_info (CONFIG_THREAD_INFO_IN_TASK).

use bigiron_format::VirtAddr;

use super::evidence::Evidence;
use super::finding::{Finding, Sure};
use crate::error::InspectError;
use crate::tasks::Task;
use crate::waits::TaskName;

/// Kind.
pub const KIND: &str = "stack-end";
const MAGIC: u64 = 0x57ac_6e9d;

/// A finding for each such task.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let program = evidence.program;
    program.locate("task_struct", "thread_info")?;
    let stack = program.locate("task_struct", "stack")?;
    let tasks = evidence.tasks()?;
    let mut intact = 0_usize;
    let mut damaged: Vec<(&Task, u64, u64)> = Vec::new();
    for task in &tasks.tasks {
        if evidence.stop.is_set() {
            break;
        }
        let read = || {
            let end = program.value_at(task.address, &stack)?;
            Ok::<_, InspectError>((end, program.number(VirtAddr(end), 8)?))
        };
        match read() {
            Ok((_, MAGIC)) => intact += 1,
            // An ended task has given its stack back.
            Ok((end, found)) if end != 0 => damaged.push((task, end, found)),
            _ => {}
        }
    }
    // If it were most of them, the word would be somewhere else.
    if damaged.len() > intact {
        return Ok(Vec::new());
    }
    let findings = damaged.into_iter().map(|(task, end, found)| {
        let name = TaskName::of(task);
        let title = format!("the end of the stack of {name} is overwritten");
        Finding::new(KIND, 95, Sure::Certain, title)
            .because(format!("there is {found:#x} in place of {MAGIC:#x}"))
            .task(&name)
            .place(program, "end of the stack", VirtAddr(end))
            .more("bigiron info --stacks DUMP")
    });
    Ok(findings.collect())
}
