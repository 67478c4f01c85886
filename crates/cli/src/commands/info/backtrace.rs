//! `bigiron info --backtrace` and `--stacks`.

use bigiron_inspect::{
    Frame, InspectError, Overview, Program, Task, Tasks, Trace, Unwinder, current_task, panic_cpu,
    task_at,
};
use bigiron_kernel::Kernel;
use serde::Serialize;

use super::page::Page;
use super::topic::Topic;

/// JSON name of the stacks of CPUs.
pub const BACKTRACE: &str = "backtrace";
/// JSON name of the stacks of all tasks.
pub const STACKS: &str = "stacks";

/// The stacks of several tasks.
#[derive(Serialize)]
struct Stacks {
    tasks: Vec<Stack>,
    /// The reason why only frame pointers were used.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_tables: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<String>,
}

/// A stack.
#[derive(Serialize)]
struct Stack {
    #[serde(flatten)]
    task: Task,
    #[serde(flatten)]
    trace: Trace,
}

/// Finds the stacks of running tasks, the panicking CPU's first.
pub fn find(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(BACKTRACE, of_cpus(program), show)
}

/// Finds the stacks of all tasks.
pub fn find_all(program: &Program) -> anyhow::Result<Topic> {
    Topic::of(STACKS, of_tasks(program), show)
}

/// Returns the stack of the panicking CPU if the log does not have it; `None` if no CPU
/// panicked, or if it is unknown. Reading the kernel's symbols takes longer than the rest of
/// the overview, so they are read only if the log is not sufficient.
pub fn for_log(overview: &Overview, kernel: &Kernel) -> anyhow::Result<Option<Topic>> {
    let log_tells = overview.crash.as_ref().is_some_and(|crash| {
        let quiet = crash.panic.is_none() && crash.cause.is_none();
        quiet || (crash.with_trace()).is_some_and(|event| !event.trace.is_empty())
    });
    if log_tells {
        return Ok(None);
    }
    let found = Program::open(kernel).and_then(|program| {
        let panicked = panic_cpu(&program);
        of_some(&program, |_| panicked.into_iter().collect())
    });
    match found {
        Ok(found)
            if found
                .tasks
                .iter()
                .any(|stack| !stack.trace.frames.is_empty()) =>
        {
            Topic::of(BACKTRACE, Ok(found), show).map(Some)
        }
        _ => Ok(None),
    }
}

fn of_cpus(program: &Program) -> Result<Stacks, InspectError> {
    let panicked = panic_cpu(program);
    of_some(program, |all| {
        let others = all.iter().copied().filter(|cpu| Some(*cpu) != panicked);
        panicked.into_iter().chain(others).collect()
    })
}

/// Returns the stacks of the online CPUs that `choose` selects.
fn of_some(
    program: &Program,
    choose: impl Fn(&[usize]) -> Vec<usize>,
) -> Result<Stacks, InspectError> {
    let unwinder = Unwinder::new(program)?;
    let (mut tasks, mut gaps) = (Vec::new(), Vec::new());
    for cpu in choose(unwinder.cpus()) {
        let task = current_task(program, cpu).and_then(|task| task_at(program, task));
        match task {
            Ok(task) => tasks.push(Stack {
                trace: unwinder.cpu(cpu),
                task,
            }),
            Err(error) => gaps.push(format!("CPU {cpu}: {error}")),
        }
    }
    Ok(Stacks {
        tasks,
        without_tables: unwinder.without_tables().map(str::to_owned),
        gaps,
    })
}

fn of_tasks(program: &Program) -> Result<Stacks, InspectError> {
    let unwinder = Unwinder::new(program)?;
    let Tasks { tasks, gaps } = Tasks::of(program)?;
    let stack = |task: Task| Stack {
        trace: unwinder.task(&task),
        task,
    };
    Ok(Stacks {
        tasks: tasks.into_iter().map(stack).collect(),
        without_tables: unwinder.without_tables().map(str::to_owned),
        gaps,
    })
}

fn show(found: &Stacks, page: &mut Page) {
    without_tables(found, page);
    for Stack { task, trace } in &found.tasks {
        let Task {
            pid, name, state, ..
        } = task;
        let cpu = task.cpu.filter(|_| task.on_cpu);
        let place = cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default();
        page.heading(&format!("{name} (PID {pid}), {state}{place}"));
        for frame in &trace.frames {
            page.line("", &call(frame));
        }
        if let Some(reason) = &trace.cut {
            page.line("", &format!("(the trace ends here: {reason})"));
        }
    }
    for gap in &found.gaps {
        page.line("", &format!("not known: {gap}"));
    }
}

fn without_tables(found: &Stacks, page: &mut Page) {
    if let Some(reason) = &found.without_tables {
        page.line("", &format!("(by frame pointers only: {reason})"));
    }
}

/// Formats a frame like the kernel: `schedule+0x5e/0xe0`; with a question mark if unreliable.
fn call(frame: &Frame) -> String {
    let mut text = match &frame.symbol {
        Some(symbol) => symbol.clone(),
        None => frame.address.to_string(),
    };
    if let Some(offset) = frame.offset {
        text += &format!("+{offset:#x}");
    }
    if let Some(size) = frame.size {
        text += &format!("/{size:#x}");
    }
    if let Some(module) = &frame.module {
        text += &format!(" [{module}]");
    }
    if frame.sure {
        text
    } else {
        format!("? {text}")
    }
}
