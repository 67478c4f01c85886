//! The signature of a dump: from its log, and from the stacks in it where the log says less.

use bigiron_kernel::Kernel;

use super::rules::{RULES_VERSION, is_of_crash_path};
use super::search::Search;
use super::stack::Frame;
use super::{Signature, blame, identify};
use crate::crash::Crash;
use crate::program::Program;
use crate::stack::{Trace, Unwinder, panic_cpu};
use crate::tasks::Tasks;

/// Kind of a crash of which the log says nothing.
const UNKNOWN: &str = "kernel panic in {function}";

/// Names the crash of a dump whose log was searched; `crash` is `None` if the log cannot be read.
///
/// Reading the kernel's symbols takes longer than the rest of the overview, so stacks are
/// unwound only if the log has no usable one: a log that was cut, or written over.
pub fn of_dump(search: &Search, crash: Option<&Crash>, kernel: &Kernel) -> Option<Signature> {
    let of_log = search.signature(&[]);
    let is_sufficient = match &of_log {
        Some(signature) => !signature.corrupted,
        // A dump of a kernel that ran.
        None => crash.is_some_and(|crash| crash.panic.is_none()),
    };
    if is_sufficient {
        return of_log;
    }
    of_stack(search, kernel).or(of_log)
}

fn of_stack(search: &Search, kernel: &Kernel) -> Option<Signature> {
    let program = Program::open(kernel).ok()?;
    let trace = trace(search, &program)?;
    let sure = trace.frames.iter().filter(|frame| frame.sure);
    let frames: Vec<Frame<'_>> = sure
        .filter_map(|frame| {
            let name = frame.symbol.as_deref()?;
            Some(Frame {
                name: name.split('.').next().unwrap_or(name),
                module: frame.module.as_deref(),
            })
        })
        .filter(|frame| !is_of_crash_path(frame.name))
        .collect();
    match search.signature(&frames) {
        Some(signature) => Some(signature),
        None => {
            let clean = blame::clean(&frames, &[]);
            let blamed = blame::choose(clean, super::rules::Choice::First)?;
            Some(Signature {
                title: UNKNOWN.replace("{function}", blamed.name),
                alternative_titles: Vec::new(),
                fingerprint: Some(identify::fingerprint(UNKNOWN, Some(&blamed))),
                frames: identify::frames_of(&blamed.frames),
                corrupted: false,
                rules_version: RULES_VERSION,
            })
        }
    }
}

/// The stack of the task that the report is about: the one that hangs, else that of the CPU that
/// panicked.
fn trace(search: &Search, program: &Program) -> Option<Trace> {
    let unwinder = Unwinder::new(program).ok()?;
    if let Some(pid) = search.first_line().and_then(hung_task) {
        let tasks = Tasks::of(program).ok()?.tasks;
        let task = tasks.into_iter().find(|task| i64::from(task.pid) == pid)?;
        return Some(unwinder.task(&task));
    }
    Some(unwinder.cpu(panic_cpu(program)?))
}

/// The PID in `INFO: task NAME:PID blocked for more than 120 seconds.`
fn hung_task(line: &str) -> Option<i64> {
    let (_, rest) = line.split_once("INFO: task ")?;
    let (task, _) = rest.rsplit_once(" blocked for more than ")?;
    task.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hung_task_is_known_by_its_pid() {
        let line = "INFO: task my:own name:4711 blocked for more than 120 seconds.";
        assert_eq!(hung_task(line), Some(4711));
        assert_eq!(hung_task("INFO: task x blocked for more than 1"), None);
        assert_eq!(hung_task("BUG: soft lockup"), None);
    }
}
