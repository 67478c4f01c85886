//! The tasks in the queues of each scheduler class.

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{Shape, size_of};
use serde::Serialize;

use crate::error::InspectError;
use crate::json::hexadecimal;
use crate::program::{Program, Walk};

/// A task on a run queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// PID; 0 for the idle task.
    pub pid: i32,
    /// Name.
    pub name: String,
    /// Priority in the kernel's numbering: below 0 deadline, below 100 real-time, 120 plus the
    /// nice value for others.
    pub priority: i32,
    /// True if it sleeps and only waits to be dequeued (since 6.12).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delayed: bool,
    /// Address of its task_struct.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

/// PID_MAX_LIMIT bounds the tasks of a queue.
const MAX_TASKS: usize = 4 << 20;
/// Maximum number of task groups per CPU.
const MAX_GROUPS: usize = 1 << 16;
/// Maximum number of real-time priorities; MAX_RT_PRIO is 100.
const MAX_PRIORITIES: u64 = 256;

/// Collects the tasks of queues.
pub struct Finder<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    /// Tasks found since it was last emptied.
    pub found: Vec<Queued>,
    /// Facts that could not be read.
    pub gaps: Vec<String>,
    /// All queues and tasks so far: each counts once, even in a damaged kernel.
    seen: HashSet<VirtAddr>,
}

impl<'p, 'k, 's> Finder<'p, 'k, 's> {
    /// Creates an empty collector.
    pub fn new(program: &'p Program<'k, 's>) -> Self {
        Self {
            program,
            found: Vec::new(),
            gaps: Vec::new(),
            seen: HashSet::new(),
        }
    }

    /// Reads a task; returns `None` if it is unreadable.
    pub fn task(&mut self, address: VirtAddr, delayed: bool) -> Option<Queued> {
        let read = || {
            // Both are ints.
            let number = |path| self.program.value(address, "task_struct", path);
            Ok::<_, InspectError>(Queued {
                pid: (number("pid")? as u32).cast_signed(),
                name: self.program.text(address, "task_struct", "comm")?,
                priority: (number("prio")? as u32).cast_signed(),
                delayed,
                address,
            })
        };
        match read() {
            Ok(task) => Some(task),
            Err(error) => {
                self.gap(format!("the task at {address}: {error}"));
                None
            }
        }
    }

    fn gap(&mut self, gap: String) {
        const MAX_GAPS: usize = 20;
        if self.gaps.len() < MAX_GAPS && !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }

    fn add(&mut self, task: VirtAddr, delayed: bool) {
        if self.seen.len() < MAX_TASKS && self.seen.insert(task) {
            let task = self.task(task, delayed);
            self.found.extend(task);
        }
    }

    /// Returns the elements of a list or tree; records a gap if it is damaged.
    fn items(&mut self, what: &str, walk: Result<Walk, InspectError>) -> Vec<VirtAddr> {
        match walk {
            Ok(walk) => {
                if let Some(reason) = walk.cut {
                    self.gap(format!("{what} is damaged: {reason}"));
                }
                walk.items
            }
            Err(error) => {
                self.gap(format!("{what}: {error}"));
                Vec::new()
            }
        }
    }

    /// Adds the tasks of a struct cfs_rq and of the groups in it. The running entity is not in
    /// the tree, but the other tasks of a running group wait below it.
    pub fn fair(&mut self, queue: VirtAddr) {
        let program = self.program;
        let has_groups = program.has("sched_entity", "my_q");
        // With the leftmost node beside it since 4.14 (commit bfb068892d30).
        let root = match program.has("cfs_rq", "tasks_timeline.rb_root") {
            true => "tasks_timeline.rb_root",
            false => "tasks_timeline",
        };
        let mut queues = vec![queue];
        while let Some(queue) = queues.pop() {
            let new = self.seen.len() < MAX_TASKS && self.seen.insert(queue);
            if !new || queues.len() > MAX_GROUPS {
                continue;
            }
            let walk = program
                .member(queue, "cfs_rq", root)
                .and_then(|root| program.tree(root, "sched_entity", "run_node", MAX_TASKS));
            let waiting = self.items("a queue of tasks", walk);
            let group = |entity: VirtAddr| match has_groups {
                true => program.value(entity, "sched_entity", "my_q").unwrap_or(0),
                false => 0,
            };
            let current = program.value(queue, "cfs_rq", "curr").unwrap_or(0);
            if current != 0 {
                let below = group(VirtAddr(current));
                queues.extend((below != 0).then_some(VirtAddr(below)));
            }
            for entity in waiting {
                match group(entity) {
                    0 => {
                        let delayed = program.value(entity, "sched_entity", "sched_delayed");
                        self.add_entity(entity, "se", delayed.is_ok_and(|delayed| delayed != 0));
                    }
                    below => queues.push(VirtAddr(below)),
                }
            }
        }
    }

    /// Adds the tasks of a struct rt_rq, highest priority first.
    pub fn real_time(&mut self, queue: VirtAddr) {
        let program = self.program;
        let has_groups = program.has("sched_rt_entity", "my_q");
        let mut queues = vec![queue];
        while let Some(queue) = queues.pop() {
            let new = self.seen.len() < MAX_TASKS && self.seen.insert(queue);
            if !new || queues.len() > MAX_GROUPS {
                continue;
            }
            let heads = self.real_time_lists(queue).unwrap_or_else(|error| {
                self.gap(format!("real time: {error}"));
                Vec::new()
            });
            for head in heads {
                let walk = program.list(head, "sched_rt_entity", "run_list", MAX_TASKS);
                for entity in self.items("a queue in real time", walk) {
                    let below = match has_groups {
                        true => program.value(entity, "sched_rt_entity", "my_q"),
                        false => Ok(0),
                    };
                    match below {
                        Ok(below) if below != 0 => queues.push(VirtAddr(below)),
                        _ => self.add_entity(entity, "rt", false),
                    }
                }
            }
        }
    }

    /// Returns the non-empty list of each priority.
    fn real_time_lists(&self, queue: VirtAddr) -> Result<Vec<VirtAddr>, InspectError> {
        let program = self.program;
        let member = program.locate("rt_rq", "active.queue")?;
        let Shape::Array(element, count) = program.shape(member.type_id)? else {
            return Ok(Vec::new());
        };
        let size = size_of(program.types(), element)?.unwrap_or(0);
        let first = program.member(queue, "rt_rq", "active.queue")?;
        let all = (0..count.min(MAX_PRIORITIES)).map(|number| size.saturating_mul(number));
        let heads = all.map(|offset| VirtAddr(first.0.wrapping_add(offset)));
        // An empty list points to itself, an uninitialised one to NULL.
        let is_used = |head: &VirtAddr| {
            let next = program.number(*head, 8);
            next.is_ok_and(|next| next != 0 && next != head.0)
        };
        Ok(heads.filter(is_used).collect())
    }

    /// Adds the tasks of a struct dl_rq, earliest deadline first.
    pub fn deadline(&mut self, queue: VirtAddr) {
        let program = self.program;
        // `root` since 4.14 (commit 2161573ecd69).
        let root = match program.has("dl_rq", "root") {
            true => "root.rb_root",
            false => "rb_root",
        };
        let walk = program
            .member(queue, "dl_rq", root)
            .and_then(|root| program.tree(root, "sched_dl_entity", "rb_node", MAX_TASKS));
        for entity in self.items("a queue of deadlines", walk) {
            // The deadline server stands for the fair tasks, so that they are not starved
            // (since 6.8, commit 63ba8422f876).
            let server = program.value(entity, "sched_dl_entity", "dl_server");
            if !server.is_ok_and(|server| server != 0) {
                self.add_entity(entity, "dl", false);
            }
        }
    }

    /// Adds the task that contains an entity.
    fn add_entity(&mut self, entity: VirtAddr, member: &str, delayed: bool) {
        match self.program.locate("task_struct", member) {
            Ok(member) => self.add(VirtAddr(entity.0.wrapping_sub(member.offset)), delayed),
            Err(error) => self.gap(error.to_string()),
        }
    }
}
