//! The tasks in the queues of each class of the scheduler.

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{Shape, size_of};

use super::Queued;
use crate::error::InspectError;
use crate::program::{Program, Walk};

/// PID_MAX_LIMIT: no queue has more tasks.
const MOST_TASKS: usize = 4 << 20;
/// Groups of tasks on one CPU that are looked at.
const MOST_GROUPS: usize = 1 << 16;
/// Priorities of real time: MAX_RT_PRIO is 100.
const MOST_PRIORITIES: u64 = 256;

/// Finds the tasks of queues.
pub struct Finder<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    /// Those found since it was emptied.
    pub found: Vec<Queued>,
    /// What could not be told.
    pub gaps: Vec<String>,
    /// All queues and tasks so far: each counts once, also in a damaged kernel.
    seen: HashSet<VirtAddr>,
}

impl<'p, 'k, 's> Finder<'p, 'k, 's> {
    /// One that has found nothing yet.
    pub fn new(program: &'p Program<'k, 's>) -> Self {
        Self {
            program,
            found: Vec::new(),
            gaps: Vec::new(),
            seen: HashSet::new(),
        }
    }

    /// What a task is; `None` if it cannot be read.
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
        const MOST_GAPS: usize = 20;
        if self.gaps.len() < MOST_GAPS && !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }

    fn add(&mut self, task: VirtAddr, delayed: bool) {
        if self.seen.len() < MOST_TASKS && self.seen.insert(task) {
            let task = self.task(task, delayed);
            self.found.extend(task);
        }
    }

    /// The elements of a list or tree, or none and a gap.
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

    /// The tasks of a struct cfs_rq and of the groups in it. What runs is in no tree;
    /// of a group that runs the others wait below.
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
            let new = self.seen.len() < MOST_TASKS && self.seen.insert(queue);
            if !new || queues.len() > MOST_GROUPS {
                continue;
            }
            let walk = program
                .member(queue, "cfs_rq", root)
                .and_then(|root| program.tree(root, "sched_entity", "run_node", MOST_TASKS));
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

    /// The tasks of a struct rt_rq, those with the highest priority first.
    pub fn real_time(&mut self, queue: VirtAddr) {
        let program = self.program;
        let has_groups = program.has("sched_rt_entity", "my_q");
        let mut queues = vec![queue];
        while let Some(queue) = queues.pop() {
            let new = self.seen.len() < MOST_TASKS && self.seen.insert(queue);
            if !new || queues.len() > MOST_GROUPS {
                continue;
            }
            let heads = self.real_time_lists(queue).unwrap_or_else(|error| {
                self.gap(format!("real time: {error}"));
                Vec::new()
            });
            for head in heads {
                let walk = program.list(head, "sched_rt_entity", "run_list", MOST_TASKS);
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

    /// The list of each priority that has one.
    fn real_time_lists(&self, queue: VirtAddr) -> Result<Vec<VirtAddr>, InspectError> {
        let program = self.program;
        let place = program.place("rt_rq", "active.queue")?;
        let Shape::Array(element, count) = program.shape(place.type_id)? else {
            return Ok(Vec::new());
        };
        let size = size_of(program.types(), element)?.unwrap_or(0);
        let first = program.member(queue, "rt_rq", "active.queue")?;
        let all = (0..count.min(MOST_PRIORITIES)).map(|number| size.saturating_mul(number));
        let heads = all.map(|offset| VirtAddr(first.0.wrapping_add(offset)));
        // An empty list leads to itself, one that was never made to nowhere.
        let is_used = |head: &VirtAddr| {
            let next = program.number(*head, 8);
            next.is_ok_and(|next| next != 0 && next != head.0)
        };
        Ok(heads.filter(is_used).collect())
    }

    /// The tasks of a struct dl_rq, the next deadline first.
    pub fn deadline(&mut self, queue: VirtAddr) {
        let program = self.program;
        // `root` since 4.14 (commit 2161573ecd69).
        let root = match program.has("dl_rq", "root") {
            true => "root.rb_root",
            false => "rb_root",
        };
        let walk = program
            .member(queue, "dl_rq", root)
            .and_then(|root| program.tree(root, "sched_dl_entity", "rb_node", MOST_TASKS));
        for entity in self.items("a queue of deadlines", walk) {
            // Stands for the fair tasks, so that they are not kept out for ever (since
            // 6.8, commit 63ba8422f876).
            let server = program.value(entity, "sched_dl_entity", "dl_server");
            if !server.is_ok_and(|server| server != 0) {
                self.add_entity(entity, "dl", false);
            }
        }
    }

    /// The task that an entity is part of.
    fn add_entity(&mut self, entity: VirtAddr, member: &str, delayed: bool) {
        match self.program.place("task_struct", member) {
            Ok(place) => self.add(VirtAddr(entity.0.wrapping_sub(place.offset)), delayed),
            Err(error) => self.gap(error.to_string()),
        }
    }
}
