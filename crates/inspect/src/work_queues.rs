//! Work queues: their pools of workers, what busy workers execute, and the items that wait.
//!
//! Relies on the list `workqueues`, and on struct workqueue_struct, pool_workqueue, worker_pool
//! and worker (kernel/workqueue.c, kernel/workqueue_internal.h).

use std::collections::BTreeMap;

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::jiffies::Jiffies;
use crate::json::hexadecimal;
use crate::program::Program;
use crate::tasks::task_at;
use crate::waits::TaskName;
use crate::waits::workers::{is_barrier, queue_name, queue_of_item};

/// Maximum number of work queues, of pools for a queue, of workers of a pool, and of items in a
/// list.
const MAX_QUEUES: usize = 1 << 16;
const MAX_PARTS: usize = 1 << 16;
const MAX_WORKERS: usize = 1 << 16;
const MAX_ITEMS: usize = 1 << 16;
/// Items of a list that are read; the others are counted.
const SHOWN_ITEMS: usize = 256;
/// WQ_UNBOUND (include/linux/workqueue.h).
const UNBOUND: u64 = 1 << 1;

/// The work queues of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkQueues {
    /// The queues, in the kernel's order.
    pub queues: Vec<WorkQueue>,
    /// The pools of workers that they use, by number.
    pub pools: Vec<Pool>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// A work queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkQueue {
    /// Its name.
    pub name: String,
    /// Its struct workqueue_struct.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// True if its items may run on any CPU (WQ_UNBOUND).
    pub unbound: bool,
    /// Number of its items that are executed, or next in a pool.
    pub active: u64,
    /// The items that only start when others have ended.
    pub waiting: Vec<Item>,
    /// Number of these items.
    pub waiting_count: usize,
}

/// A pool of workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Its number.
    pub id: i64,
    /// Its CPU; `None` if its workers may run on any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// The nice value of its workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i64>,
    /// Its struct worker_pool.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Number of its workers.
    pub workers: u64,
    /// Number of workers without work.
    pub idle: u64,
    /// The workers that execute an item.
    pub busy: Vec<BusyWorker>,
    /// The items that wait for a worker.
    pub pending: Vec<Item>,
    /// Number of these items.
    pub pending_count: usize,
    /// Nanoseconds since an item of it was begun last, while items wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_nsec: Option<u64>,
}

/// A worker that executes an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BusyWorker {
    /// Its task.
    pub task: TaskName,
    /// Its struct worker.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// The item.
    pub item: Item,
    /// Nanoseconds since the worker had no work last: it has executed the item for that long at
    /// most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_nsec: Option<u64>,
    /// Number of items that wait for this worker.
    pub behind: usize,
}

/// A work item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Its struct work_struct.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Its function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Name of its work queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

impl WorkQueues {
    /// Reads all work queues.
    ///
    /// # Errors
    ///
    /// The kernel lacks the list or a member.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let jiffies = Jiffies::of(program).ok();
        let head = program.symbol("workqueues")?;
        let walk = program.list(head, "workqueue_struct", "list", MAX_QUEUES)?;
        let mut found = Self::default();
        found.cut("the list of work queues", walk.cut);
        let mut pools = BTreeMap::new();
        for queue in walk.items {
            match found.queue(program, queue, &mut pools) {
                Ok(queue) => found.queues.push(queue),
                Err(error) => found
                    .gaps
                    .push(format!("the work queue at {queue}: {error}")),
            }
        }
        for address in pools.into_values() {
            match found.pool(program, address, jiffies) {
                Ok(pool) => found.pools.push(pool),
                Err(error) => found.gaps.push(format!("the pool at {address}: {error}")),
            }
        }
        Ok(found)
    }

    fn cut(&mut self, what: &str, cut: Option<String>) {
        self.gaps.extend(cut.map(|cut| format!("{what}: {cut}")));
    }

    /// Reads a queue, and adds the pools that it uses by their numbers.
    fn queue(
        &mut self,
        program: &Program,
        at: VirtAddr,
        pools: &mut BTreeMap<(i64, VirtAddr), VirtAddr>,
    ) -> Result<WorkQueue, InspectError> {
        const PART: &str = "pool_workqueue";
        // `delayed_works` until 5.15 (commit f97a4a1a3f87).
        let waiting = match program.has(PART, "inactive_works") {
            true => "inactive_works",
            false => "delayed_works",
        };
        let flags = program.value(at, "workqueue_struct", "flags")?;
        let mut queue = WorkQueue {
            name: program.text(at, "workqueue_struct", "name")?,
            address: at,
            unbound: flags & UNBOUND != 0,
            active: 0,
            waiting: Vec::new(),
            waiting_count: 0,
        };
        let head = program.member(at, "workqueue_struct", "pwqs")?;
        let parts = program.list(head, PART, "pwqs_node", MAX_PARTS)?;
        self.cut(&format!("the pools of {}", queue.name), parts.cut);
        for part in parts.items {
            let pool = program.pointer(part, PART, "pool")?;
            let id = program.signed(pool, "worker_pool", "id")?;
            pools.insert((id, pool), pool);
            let active = program.value(part, PART, "nr_active")?;
            queue.active = queue.active.saturating_add(active);
            let head = program.member(part, PART, waiting)?;
            let items = self.items(program, head, &format!("the items of {}", queue.name))?;
            queue.waiting_count = queue.waiting_count.saturating_add(items.len());
            let room = SHOWN_ITEMS.saturating_sub(queue.waiting.len());
            let items = items.into_iter().take(room);
            queue
                .waiting
                .extend(items.map(|item| Item::of(program, item)));
        }
        Ok(queue)
    }

    fn pool(
        &mut self,
        program: &Program,
        at: VirtAddr,
        jiffies: Option<Jiffies>,
    ) -> Result<Pool, InspectError> {
        const POOL: &str = "worker_pool";
        let value = |path| program.value(at, POOL, path);
        let since = |then: u64| jiffies.and_then(|jiffies| jiffies.since(then));
        let id = program.signed(at, POOL, "id")?;
        let attributes = program.pointer(at, POOL, "attrs")?;
        let head = program.member(at, POOL, "workers")?;
        let workers = program.list(head, "worker", "node", MAX_WORKERS)?;
        self.cut(&format!("the workers of pool {id}"), workers.cut);
        let mut busy = Vec::new();
        for worker in workers.items {
            match self.worker(program, worker) {
                Ok(found) => busy.extend(found.map(|(worker, last)| BusyWorker {
                    busy_nsec: since(last),
                    ..worker
                })),
                Err(error) => self.gaps.push(format!("the worker at {worker}: {error}")),
            }
        }
        let head = program.member(at, POOL, "worklist")?;
        let items = self.items(program, head, &format!("the items of pool {id}"))?;
        let begun = value("watchdog_ts").ok().and_then(since);
        Ok(Pool {
            id,
            cpu: usize::try_from(program.signed(at, POOL, "cpu")?).ok(),
            nice: program.signed(attributes, "workqueue_attrs", "nice").ok(),
            address: at,
            workers: value("nr_workers")?,
            idle: value("nr_idle")?,
            busy,
            pending_count: items.len(),
            stalled_nsec: begun.filter(|_| !items.is_empty()),
            pending: items
                .into_iter()
                .take(SHOWN_ITEMS)
                .map(|item| Item::of(program, item))
                .collect(),
        })
    }

    /// Reads a worker, and the jiffies when it had no work last; `None` if it has none now.
    fn worker(
        &mut self,
        program: &Program,
        at: VirtAddr,
    ) -> Result<Option<(BusyWorker, u64)>, InspectError> {
        let item = program.pointer(at, "worker", "current_work")?;
        if item.0 == 0 {
            return Ok(None);
        }
        let task = program.pointer(at, "worker", "task")?;
        let function = program.pointer(at, "worker", "current_func")?;
        let part = program.pointer(at, "worker", "current_pwq")?;
        let head = program.member(at, "worker", "scheduled")?;
        let worker = BusyWorker {
            task: TaskName::of(&task_at(program, task)?),
            address: at,
            item: Item {
                address: item,
                function: program.symbol_at(function).map(|found| found.name()),
                queue: queue_name(program, part).ok(),
            },
            busy_nsec: None,
            behind: self.items(program, head, "the items of a worker")?.len(),
        };
        Ok(Some((worker, program.value(at, "worker", "last_active")?)))
    }

    /// The items in a list, without those that flushes put behind others.
    fn items(
        &mut self,
        program: &Program,
        head: VirtAddr,
        what: &str,
    ) -> Result<Vec<VirtAddr>, InspectError> {
        let walk = program.list(head, "work_struct", "entry", MAX_ITEMS)?;
        self.cut(what, walk.cut);
        let items = walk.items.into_iter();
        Ok(items.filter(|item| !is_barrier(program, *item)).collect())
    }
}

impl Item {
    fn of(program: &Program, at: VirtAddr) -> Self {
        let function = program.pointer(at, "work_struct", "func").ok();
        Self {
            address: at,
            function: function
                .and_then(|function| program.symbol_at(function))
                .map(|found| found.name()),
            queue: queue_of_item(program, at).and_then(|part| queue_name(program, part).ok()),
        }
    }
}
