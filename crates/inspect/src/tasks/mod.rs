//! The tasks of a kernel, as ps would list them.

mod rss;
mod state;

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_kernel::types::MemberLocation;
use serde::Serialize;

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::json::hexadecimal;
use crate::program::{Program, Walk};
use rss::Rss;
use state::States;

/// Maximum number of tasks: PID_MAX_LIMIT (include/linux/threads.h).
const MAX_TASKS: usize = 4 << 20;
/// PF_KTHREAD (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A task: a process, a thread of one, or a kernel thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Task {
    /// PID; 0 for the idle task of each CPU.
    pub pid: i32,
    /// Thread group id: the PID of the thread group leader.
    pub tgid: i32,
    /// PID of the parent process; `None` if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<i32>,
    /// Name (comm), up to 15 bytes.
    pub name: String,
    /// State letter, as printed by ps.
    pub state: char,
    /// The kernel's word for the state.
    pub state_name: String,
    /// `__state`: the state and how it may be woken.
    pub state_bits: u64,
    /// The CPU on which it runs or ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    /// True if it is running on that CPU.
    pub on_cpu: bool,
    /// True for a kernel thread.
    pub kernel_thread: bool,
    /// True for a CPU's idle task.
    pub idle: bool,
    /// Resident pages; `None` for kernel threads, and if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_pages: Option<u64>,
    /// Address of its task_struct.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

/// All tasks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tasks {
    /// The idle task of each CPU, then each process followed by its threads, in order of
    /// creation.
    pub tasks: Vec<Task>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl Tasks {
    /// Finds all tasks. A damaged list is followed up to the damage and, by its backward links,
    /// from the other end.
    ///
    /// # Errors
    ///
    /// The kernel has no `init_task` or no `struct task_struct`.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let layout = Layout::of(program)?;
        let first = program.symbol("init_task")?;
        let mut found = Finder {
            budget: MAX_TASKS,
            ..Finder::default()
        };
        for cpu in online_cpus(program, &mut found.gaps) {
            // init_task is the boot CPU's.
            match idle_task(program, cpu) {
                Ok(address) => found.add(address),
                Err(error) => found.gap(format!("the idle task of CPU {cpu}: {error}")),
            }
        }
        found.idle = found.order.len();
        let head = program.member(first, "task_struct", "tasks")?;
        let leaders = both_ways(program, head, "task_struct", "tasks", MAX_TASKS)?;
        found.cut("the list of processes", leaders.cut);
        for leader in leaders.items {
            found.add(leader);
            match layout.threads(program, leader, found.budget) {
                Ok(threads) => {
                    found.budget -= threads.items.len().min(found.budget);
                    found.cut("the threads of a process", threads.cut);
                    threads.items.into_iter().for_each(|task| found.add(task));
                }
                Err(error) => found.gap(format!("the threads of a process: {error}")),
            }
        }
        // An exiting task leaves the lists before it leaves its CPU.
        for cpu in online_cpus(program, &mut Vec::new()) {
            if let Ok(task) = current_task(program, cpu) {
                found.add(task);
            }
        }
        Ok(found.finish(program, &layout))
    }
}

/// Reads the task at `address`.
pub fn task_at(program: &Program, address: VirtAddr) -> Result<Task, InspectError> {
    let layout = Layout::of(program)?;
    let mut found = [layout.read(program, address)?];
    count_pages(program, &mut found);
    let [found] = found;
    Ok(found.task)
}

/// Returns the task that is running on a CPU, according to its run queue.
pub fn current_task(program: &Program, cpu: usize) -> Result<VirtAddr, InspectError> {
    let queue = program.per_cpu("runqueues", cpu)?;
    task_pointer(program.pointer(queue, "rq", "curr")?, "the task of a CPU")
}

fn idle_task(program: &Program, cpu: usize) -> Result<VirtAddr, InspectError> {
    let queue = program.per_cpu("runqueues", cpu)?;
    task_pointer(
        program.pointer(queue, "rq", "idle")?,
        "the idle task of a CPU",
    )
}

fn task_pointer(address: VirtAddr, what: &str) -> Result<VirtAddr, InspectError> {
    match address {
        VirtAddr(0) => Err(InspectError::Damaged {
            what: what.into(),
            address,
            reason: "there is none".into(),
        }),
        found => Ok(found),
    }
}

/// Walks a list; where it is damaged, also backwards from its head.
fn both_ways(
    program: &Program,
    head: VirtAddr,
    name: &str,
    path: &str,
    most: usize,
) -> Result<Walk, InspectError> {
    let mut walk = program.list(head, name, path, most)?;
    if walk.cut.is_some() {
        let back = program.list_back(head, name, path, most)?;
        let seen: HashSet<VirtAddr> = walk.items.iter().copied().collect();
        let new = |item: &&VirtAddr| !seen.contains(item);
        // In list order.
        let behind: Vec<VirtAddr> = back.items.iter().take_while(new).copied().collect();
        walk.items.extend(behind.into_iter().rev());
    }
    Ok(walk)
}

/// Tasks found so far, each once.
#[derive(Default)]
struct Finder {
    order: Vec<VirtAddr>,
    seen: HashSet<VirtAddr>,
    /// Number of idle tasks.
    idle: usize,
    /// Number of threads that may still be walked. In a damaged kernel all processes may lead
    /// into one long list.
    budget: usize,
    gaps: Vec<String>,
}

impl Finder {
    fn add(&mut self, task: VirtAddr) {
        if self.order.len() < MAX_TASKS && self.seen.insert(task) {
            self.order.push(task);
        }
    }

    /// Records a gap, once, up to a maximum number.
    fn gap(&mut self, gap: String) {
        const MAX_GAPS: usize = 20;
        if self.gaps.len() < MAX_GAPS && !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }

    fn cut(&mut self, what: &str, cut: Option<String>) {
        if let Some(reason) = cut {
            self.gap(format!("{what} is damaged: {reason}"));
        }
    }

    fn finish(mut self, program: &Program, layout: &Layout) -> Tasks {
        let mut tasks = Vec::new();
        for (index, address) in std::mem::take(&mut self.order).into_iter().enumerate() {
            match layout.read(program, address) {
                Ok(mut found) => {
                    found.task.idle = index < self.idle;
                    tasks.push(found);
                }
                Err(error) => self.gap(format!("the task at {address}: {error}")),
            }
        }
        if let Some(reason) = count_pages(program, &mut tasks) {
            // Also if many gaps are known already: each task lacks this.
            self.gaps.push(format!("pages in memory: {reason}"));
        }
        Tasks {
            tasks: tasks.into_iter().map(|found| found.task).collect(),
            gaps: self.gaps,
        }
    }
}

/// A task, and the address of its mm if it has memory of its own.
struct Found {
    task: Task,
    mm: Option<VirtAddr>,
}

/// Sets the resident pages of tasks, and returns why some are unknown.
fn count_pages(program: &Program, tasks: &mut [Found]) -> Option<String> {
    // Threads share an mm.
    let mut seen = HashSet::new();
    let own = tasks.iter().filter_map(|found| {
        let mm = found.mm.filter(|mm| seen.insert(*mm))?;
        Some((found.task.address, mm))
    });
    let own: Vec<(VirtAddr, VirtAddr)> = own.collect();
    if own.is_empty() {
        return None;
    }
    let counted = match Rss::of(program) {
        Ok(rss) => rss.pages(program, &own),
        Err(error) => return Some(error.to_string()),
    };
    for found in tasks {
        found.task.rss_pages = found.mm.and_then(|mm| counted.of(mm));
    }
    counted.unknown
}

/// Locations of the fields of task_struct.
struct Layout {
    pid: MemberLocation,
    tgid: MemberLocation,
    parent: MemberLocation,
    flags: MemberLocation,
    mm: MemberLocation,
    /// `__state` since 5.14 (commit 2f064a59a11f).
    state: MemberLocation,
    exit_state: MemberLocation,
    /// In thread_info since 5.16 (commit bcf9033e5449).
    cpu: Option<MemberLocation>,
    /// Missing without SMP.
    on_cpu: Option<MemberLocation>,
    states: States,
}

impl Layout {
    fn of(program: &Program) -> Result<Self, InspectError> {
        let member = |path: &str| program.locate("task_struct", path);
        Ok(Self {
            pid: member("pid")?,
            tgid: member("tgid")?,
            parent: member("real_parent")?,
            flags: member("flags")?,
            mm: member("mm")?,
            state: member("__state").or_else(|_| member("state"))?,
            exit_state: member("exit_state")?,
            cpu: member("thread_info.cpu").or_else(|_| member("cpu")).ok(),
            on_cpu: member("on_cpu").ok(),
            states: States::of(program),
        })
    }

    /// Returns all threads of a process.
    fn threads(
        &self,
        program: &Program,
        leader: VirtAddr,
        most: usize,
    ) -> Result<Walk, InspectError> {
        if program.has("signal_struct", "thread_head") {
            let signal = program.pointer(leader, "task_struct", "signal")?;
            let head = program.member(signal, "signal_struct", "thread_head")?;
            return both_ways(program, head, "task_struct", "thread_node", most);
        }
        // Before 3.14 (commit 0c740d0afc3b) the threads themselves form a ring.
        let head = program.member(leader, "task_struct", "thread_group")?;
        both_ways(program, head, "task_struct", "thread_group", most)
    }

    /// Reads the task at `address`, without its resident pages.
    fn read(&self, program: &Program, address: VirtAddr) -> Result<Found, InspectError> {
        let number = |member: &MemberLocation| program.value_at(address, member);
        // pid_t is an int; the upper half does not belong to it.
        let pid_of = |value: u64| (value as u32).cast_signed();
        let state_bits = number(&self.state)?;
        let (state, state_name) = self.states.name(state_bits, number(&self.exit_state)?);
        let kernel_thread = number(&self.flags)? & KERNEL_THREAD != 0;
        let mm = VirtAddr(number(&self.mm)?);
        // An exiting task has released its memory.
        let has_memory = !kernel_thread && mm.0 != 0;
        let parent = VirtAddr(number(&self.parent)?);
        let parent = program.value_at(parent, &self.tgid).ok();
        let optional = |member: &Option<MemberLocation>| {
            member.as_ref().and_then(|member| number(member).ok())
        };
        let task = Task {
            pid: pid_of(number(&self.pid)?),
            tgid: pid_of(number(&self.tgid)?),
            parent: parent.map(pid_of),
            name: program.text(address, "task_struct", "comm")?,
            state,
            state_name,
            state_bits,
            cpu: optional(&self.cpu),
            on_cpu: optional(&self.on_cpu).is_some_and(|on| on != 0),
            kernel_thread,
            idle: false,
            rss_pages: None,
            address,
        };
        let mm = has_memory.then_some(mm);
        Ok(Found { task, mm })
    }
}
