//! Workers of work queues (struct worker, kernel/workqueue_internal.h).

use bigiron_format::VirtAddr;
use serde::Serialize;

use super::task_name::TaskName;
use crate::error::InspectError;
use crate::json::hexadecimal;
use crate::program::Program;
use crate::tasks::Task;

/// PF_WQ_WORKER (include/linux/sched.h).
const WORKER: u64 = 0x20;
/// WORK_STRUCT_PWQ: the data of a work item is a pool_workqueue and flags.
const HAS_QUEUE: u64 = 1 << 2;
/// Maximum number of work items in a list.
const MAX_ITEMS: usize = 1 << 16;
/// Maximum length of a queue's name.
const MAX_NAME: usize = 64;

/// A worker that executes a work item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// Its task.
    pub task: TaskName,
    /// The function of its work item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Name of the work queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Work items behind it in the same queue: those that only start when others have ended.
    pub behind: usize,
    /// Address of the work item.
    #[serde(serialize_with = "hexadecimal")]
    pub item: VirtAddr,
    /// Address of its struct worker.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Address of the queue's part for a pool of workers (struct pool_workqueue).
    #[serde(skip)]
    pub part: VirtAddr,
}

/// Returns the workers among `tasks` that are busy.
pub fn busy(program: &Program, tasks: &[Task]) -> Vec<Worker> {
    let kernel_threads = tasks.iter().filter(|task| task.kernel_thread);
    kernel_threads
        .filter_map(|task| worker(program, task).ok().flatten())
        .collect()
}

fn worker(program: &Program, task: &Task) -> Result<Option<Worker>, InspectError> {
    let flags = program.value(task.address, "task_struct", "flags")?;
    if flags & WORKER == 0 {
        return Ok(None);
    }
    // In set_child_tid until 5.17 (commit e32cf5dfbe22).
    let member = match program.has("task_struct", "worker_private") {
        true => "worker_private",
        false => "set_child_tid",
    };
    let thread = program.pointer(task.address, "task_struct", member)?;
    let address = program.pointer(thread, "kthread", "data")?;
    // The worker names its task as well.
    if program.pointer(address, "worker", "task")? != task.address {
        return Ok(None);
    }
    let item = program.pointer(address, "worker", "current_work")?;
    if item.0 == 0 {
        return Ok(None);
    }
    let function = program.pointer(address, "worker", "current_func")?;
    let part = program.pointer(address, "worker", "current_pwq")?;
    Ok(Some(Worker {
        task: TaskName::of(task),
        function: program.symbol_at(function).map(|found| found.name()),
        queue: queue_name(program, part).ok(),
        behind: behind(program, part).unwrap_or(0),
        item,
        address,
        part,
    }))
}

/// Name of the work queue that a pool_workqueue is a part of.
pub(crate) fn queue_name(program: &Program, part: VirtAddr) -> Result<String, InspectError> {
    let queue = program.pointer(part, "pool_workqueue", "wq")?;
    let member = program.member(queue, "workqueue_struct", "name")?;
    program.string(member, MAX_NAME)
}

/// Counts the items that wait until the queue has fewer active ones.
fn behind(program: &Program, part: VirtAddr) -> Result<usize, InspectError> {
    // `delayed_works` until 5.15 (commit f97a4a1a3f87).
    let member = match program.has("pool_workqueue", "inactive_works") {
        true => "inactive_works",
        false => "delayed_works",
    };
    let head = program.member(part, "pool_workqueue", member)?;
    let walk = program.list(head, "work_struct", "entry", MAX_ITEMS)?;
    let is_item = |item: &&VirtAddr| !is_barrier(program, **item);
    Ok(walk.items.iter().filter(is_item).count())
}

/// Returns true for the item that a flush puts behind the one that it waits for.
pub(crate) fn is_barrier(program: &Program, item: VirtAddr) -> bool {
    let function = program.pointer(item, "work_struct", "func");
    function.is_ok_and(|function| {
        program
            .symbol_at(function)
            .is_some_and(|found| found.symbol.name == "wq_barrier_func")
    })
}

/// Returns the workers that must get on before the completion of a flush: `completion` is in the
/// barrier on the stack of `task` (insert_wq_barrier, kernel/workqueue.c). `None` if it is not.
pub fn flushed(
    program: &Program,
    workers: &[Worker],
    task: VirtAddr,
    completion: VirtAddr,
) -> Result<Option<Vec<VirtAddr>>, InspectError> {
    let barrier = VirtAddr(
        completion
            .0
            .wrapping_sub(program.locate("wq_barrier", "done")?.offset),
    );
    if program.pointer(barrier, "wq_barrier", "task")? != task {
        return Ok(None);
    }
    let item = program.member(barrier, "wq_barrier", "work")?;
    // Behind an item that is executed, the barrier is in its worker's list.
    let link = program.member(item, "work_struct", "entry")?;
    let others = program.list(link, "work_struct", "entry", MAX_ITEMS)?.items;
    let links = program.locate("work_struct", "entry")?.offset;
    for worker in workers {
        let head = program.member(worker.address, "worker", "scheduled")?;
        if others.contains(&VirtAddr(head.0.wrapping_sub(links))) {
            return Ok(Some(vec![worker.task.address]));
        }
    }
    // Otherwise it waits in the queue: for all items that are executed of it.
    let Some(part) = queue_of_item(program, item) else {
        return Ok(Some(Vec::new()));
    };
    let of_queue = workers.iter().filter(|worker| worker.part == part);
    Ok(Some(of_queue.map(|worker| worker.task.address).collect()))
}

/// The pool_workqueue of an item that is queued.
pub(crate) fn queue_of_item(program: &Program, item: VirtAddr) -> Option<VirtAddr> {
    let data = program.value(item, "work_struct", "data").ok()?;
    (data & HAS_QUEUE != 0).then(|| VirtAddr(data & !((1 << flag_bits(program)) - 1)))
}

/// Number of bits of a work item's data below the pool_workqueue (enum of
/// include/linux/workqueue.h).
fn flag_bits(program: &Program) -> u32 {
    let known = ["WORK_STRUCT_PWQ_SHIFT", "WORK_STRUCT_FLAG_BITS"];
    let found = known
        .iter()
        .find_map(|name| program.enumerator(name).ok().flatten());
    found
        .and_then(|bits| u32::try_from(bits).ok())
        .filter(|bits| *bits < 16)
        .unwrap_or(8)
}
