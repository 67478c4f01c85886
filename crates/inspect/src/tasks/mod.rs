//! The tasks of a kernel: what ps would have told of them.

mod rss;
mod state;

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;
use bigiron_kernel::types::Place;
use serde::{Serialize, Serializer};

use crate::error::InspectError;
use crate::program::{Program, Walk};
use rss::Rss;
use state::States;

/// PID_MAX_LIMIT (include/linux/threads.h): no kernel has more tasks.
const MOST_TASKS: usize = 4 << 20;
/// PF_KTHREAD (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A task: a process, a thread of one, or a thread of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Its number; 0 of the idle task of each CPU.
    pub pid: i32,
    /// The number of its process: that of the thread which leads it.
    pub tgid: i32,
    /// The number of the process that it belongs below; `None` if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<i32>,
    /// Its name (comm), up to 15 bytes.
    pub name: String,
    /// The letter of its state, as ps gives it.
    pub state: char,
    /// The kernel's word for that state.
    pub state_name: String,
    /// `__state` as the kernel has it: beside the state, how it may be woken.
    pub state_bits: u64,
    /// The CPU on which it runs or ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    /// Whether it is on that CPU now.
    pub on_cpu: bool,
    /// Whether it is a thread of the kernel.
    pub kernel_thread: bool,
    /// Whether it is what a CPU does when there is nothing to do.
    pub idle: bool,
    /// Pages that it has in memory; `None` of threads of the kernel and where that
    /// is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_pages: Option<u64>,
    /// Where its task_struct is.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

/// All tasks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tasks {
    /// The idle task of each CPU first, then each process with its threads behind it,
    /// in the order in which they were made.
    pub tasks: Vec<Task>,
    /// What could not be told, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// Writes an address as `0xffff888003a51980`.
pub(crate) fn hexadecimal<S: Serializer>(address: &VirtAddr, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(address)
}

impl Tasks {
    /// Finds all tasks. A damaged list gives those before the damage and, by its
    /// links backwards, those behind it.
    ///
    /// # Errors
    /// The kernel has no `init_task` or no `struct task_struct` to read it by.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let layout = Layout::of(program)?;
        let first = program.symbol("init_task")?;
        let mut found = Finder {
            budget: MOST_TASKS,
            ..Finder::default()
        };
        for cpu in online_cpus(program, &mut found.gaps) {
            // Of the boot CPU it is init_task.
            match idle_task(program, cpu) {
                Ok(address) => found.add(address),
                Err(error) => found.gap(format!("the idle task of CPU {cpu}: {error}")),
            }
        }
        found.idle = found.order.len();
        let head = program.member(first, "task_struct", "tasks")?;
        let leaders = both_ways(program, head, "task_struct", "tasks", MOST_TASKS)?;
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
        // A task that ends leaves the lists before it leaves its CPU.
        for cpu in online_cpus(program, &mut Vec::new()) {
            if let Ok(task) = current_task(program, cpu) {
                found.add(task);
            }
        }
        Ok(found.finish(program, &layout))
    }
}

/// What the task at `address` is.
pub fn task_at(program: &Program, address: VirtAddr) -> Result<Task, InspectError> {
    Layout::of(program)?.read(program, address, &mut Counted::default())
}

/// The task that is on a CPU, as its run queue says.
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

/// The CPUs that are on line.
pub(crate) fn online_cpus(program: &Program, gaps: &mut Vec<String>) -> Vec<usize> {
    let read = || {
        // Without SMP there is one and no mask.
        match program.symbol("__cpu_online_mask") {
            Ok(mask) => program.cpus_in(mask),
            Err(_) => Ok((0..program.cpu_count()?).collect()),
        }
    };
    read().unwrap_or_else(|error| {
        gaps.push(format!("the CPUs on line: {error}"));
        Vec::new()
    })
}

/// Goes along a list; where it is damaged, also backwards from its head.
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
        // In the list's own order.
        let behind: Vec<VirtAddr> = back.items.iter().take_while(new).copied().collect();
        walk.items.extend(behind.into_iter().rev());
    }
    Ok(walk)
}

/// Tasks as they are found, each once.
#[derive(Default)]
struct Finder {
    order: Vec<VirtAddr>,
    seen: HashSet<VirtAddr>,
    /// How many of them are idle tasks.
    idle: usize,
    /// How many threads may still be walked along. Processes of a damaged kernel may
    /// all lead into one long list.
    budget: usize,
    gaps: Vec<String>,
}

impl Finder {
    fn add(&mut self, task: VirtAddr) {
        if self.order.len() < MOST_TASKS && self.seen.insert(task) {
            self.order.push(task);
        }
    }

    /// Notes a gap, the same one once and not more than people read.
    fn gap(&mut self, gap: String) {
        const MOST_GAPS: usize = 20;
        if self.gaps.len() < MOST_GAPS && !self.gaps.contains(&gap) {
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
        let mut counted = Counted::default();
        for (index, address) in std::mem::take(&mut self.order).into_iter().enumerate() {
            match layout.read(program, address, &mut counted) {
                Ok(task) => tasks.push(Task {
                    idle: index < self.idle,
                    ..task
                }),
                Err(error) => self.gap(format!("the task at {address}: {error}")),
            }
        }
        if let Some(reason) = counted.unknown {
            self.gap(format!("pages in memory: {reason}"));
        }
        Tasks {
            tasks,
            gaps: self.gaps,
        }
    }
}

/// Pages in memory by address of the mm: threads share one.
#[derive(Default)]
struct Counted {
    pages: HashMap<VirtAddr, Option<u64>>,
    /// Why some are not known.
    unknown: Option<String>,
}

/// Where things are in task_struct.
struct Layout {
    pid: Place,
    tgid: Place,
    parent: Place,
    flags: Place,
    mm: Place,
    /// Since 5.14 (commit 2f064a59a11f) it is `__state`.
    state: Place,
    exit_state: Place,
    /// In thread_info since 5.16 (commit bcf9033e5449).
    cpu: Option<Place>,
    /// Without SMP there is none.
    on_cpu: Option<Place>,
    states: States,
    rss: Result<Rss, String>,
}

impl Layout {
    fn of(program: &Program) -> Result<Self, InspectError> {
        let place = |path: &str| program.place("task_struct", path);
        Ok(Self {
            pid: place("pid")?,
            tgid: place("tgid")?,
            parent: place("real_parent")?,
            flags: place("flags")?,
            mm: place("mm")?,
            state: place("__state").or_else(|_| place("state"))?,
            exit_state: place("exit_state")?,
            cpu: place("thread_info.cpu").or_else(|_| place("cpu")).ok(),
            on_cpu: place("on_cpu").ok(),
            states: States::of(program),
            rss: Rss::of(program).map_err(|error| error.to_string()),
        })
    }

    /// The threads of a process, all of them.
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
        // Before 3.14 (commit 0c740d0afc3b) a ring through the threads themselves.
        let head = program.member(leader, "task_struct", "thread_group")?;
        both_ways(program, head, "task_struct", "thread_group", most)
    }

    fn pages(
        &self,
        program: &Program,
        task: VirtAddr,
        mm: VirtAddr,
        counted: &mut Counted,
    ) -> Option<u64> {
        if let Some(pages) = counted.pages.get(&mm) {
            return *pages;
        }
        let pages = match &self.rss {
            Ok(rss) => rss
                .pages(program, task, mm)
                .map_err(|error| error.to_string()),
            Err(reason) => Err(reason.clone()),
        };
        let pages = pages.map_err(|reason| counted.unknown = Some(reason)).ok();
        counted.pages.insert(mm, pages);
        pages
    }

    /// Reads the task at `address`; `counted` knows the memory of those before it.
    fn read(
        &self,
        program: &Program,
        address: VirtAddr,
        counted: &mut Counted,
    ) -> Result<Task, InspectError> {
        let number = |place: &Place| program.value_at(address, place);
        // pid_t is an int; what is above is not of it.
        let pid_of = |value: u64| (value as u32).cast_signed();
        let state_bits = number(&self.state)?;
        let (state, state_name) = self.states.name(state_bits, number(&self.exit_state)?);
        let kernel_thread = number(&self.flags)? & KERNEL_THREAD != 0;
        let mm = VirtAddr(number(&self.mm)?);
        // A task that ends has given its memory back.
        let has_memory = !kernel_thread && mm.0 != 0;
        let rss_pages = has_memory
            .then(|| self.pages(program, address, mm, counted))
            .flatten();
        let parent = VirtAddr(number(&self.parent)?);
        let parent = program.value_at(parent, &self.tgid).ok();
        let optional = |place: &Option<Place>| place.as_ref().and_then(|place| number(place).ok());
        Ok(Task {
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
            rss_pages,
            address,
        })
    }
}
