//! Finds what each blocked task waits for.

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;
use bigiron_helpers::Stop;
use serde::Serialize;

use super::bits::AwaitedBit;
use super::calls::{self, Call};
use super::clock::Clock;
use super::edges::{Cycle, Graph, Root};
use super::frames::{function, own_frames, place, words};
use super::holder::{Holder, Holds, Owned, owner};
use super::kind::WaitKind;
use super::objects::Objects;
use super::queue::{Queued, Queues};
use super::readers::{ByLock, on_stack};
use super::task_name::TaskName;
use super::wait::{Awaited, Wait};
use super::workers::{self, Worker};
use crate::error::InspectError;
use crate::program::Program;
use crate::stack::{Trace, Unwinder};
use crate::tasks::{Task, Tasks};

/// Frames of a waiting task that may have its waiter, and frames shown of a holder.
const MAX_WAITING_FRAMES: usize = 12;
const SHOWN_FRAMES: usize = 8;
/// Beginnings of the names of functions that wait for a futex whose owner the kernel knows
/// (kernel/futex/).
const OF_FUTEXES: [&str; 3] = ["futex_lock_pi", "__futex_lock_pi", "futex_wait_requeue_pi"];
/// Tasks named as holders because the lock's address is on their stacks.
const MAX_ON_STACK: usize = 8;

/// The blocked tasks of a kernel, and who has what they wait for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Waits {
    /// Waiting tasks, those that have waited longest first.
    pub waits: Vec<Wait>,
    /// Tasks that wait for each other, so that none can go on.
    pub cycles: Vec<Cycle>,
    /// Tasks for which others wait, and that wait for no known task themselves.
    pub roots: Vec<Root>,
    /// CPUs that wait until another one has called a function.
    pub calls: Vec<Call>,
    /// Busy workers of work queues.
    pub workers: Vec<Worker>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl Waits {
    /// Finds all waits. If `stop` is set, ends with those found until then.
    ///
    /// # Errors
    ///
    /// Tasks or stacks of the kernel cannot be read.
    pub fn of(program: &Program, stop: &Stop) -> Result<Self, InspectError> {
        find(program, stop)
    }
}

/// What is known of all tasks.
struct Search<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    unwinder: Unwinder<'p, 'k, 's>,
    tasks: Vec<Task>,
    /// Positions in `tasks`.
    by_address: HashMap<VirtAddr, usize>,
    workers: Vec<Worker>,
    clock: Clock,
    objects: Objects<'p, 'k, 's>,
}

/// Finds all waits.
fn find(program: &Program, stop: &Stop) -> Result<Waits, InspectError> {
    let Tasks { tasks, mut gaps } = Tasks::of(program)?;
    let unwinder = Unwinder::new(program)?;
    let by_address = tasks.iter().enumerate();
    let by_address: HashMap<VirtAddr, usize> = by_address
        .map(|(index, task)| (task.address, index))
        .collect();
    let search = Search {
        clock: Clock::of(program, unwinder.cpus(), None),
        workers: workers::busy(program, &tasks),
        objects: Objects::new(program),
        program,
        unwinder,
        by_address,
        tasks,
    };
    let addresses = search.by_address.keys().copied().collect();
    let mut queues = Queues::new(program, addresses, &mut gaps);
    let mut waits = Vec::new();
    for task in &search.tasks {
        if stop.is_set() {
            gaps.push("the time ran out before all tasks were seen".into());
            break;
        }
        if !task.on_cpu && matches!(task.state, 'D' | 'S') {
            waits.extend(search.wait(task, &mut queues));
        }
    }
    search.add_readers(&mut waits, stop);
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.since_nsec));
    let graph = Graph::new(&waits);
    let cycles = graph.cycles();
    let roots = graph.ends().into_iter();
    let mut roots: Vec<Root> = roots
        .map(|(task, waits)| search.root(&graph, task, waits))
        .collect();
    roots.sort_by_key(|root| std::cmp::Reverse(root.behind));
    Ok(Waits {
        waits,
        cycles,
        roots,
        calls: calls::unanswered(program, &search.unwinder).unwrap_or_else(|error| {
            gaps.push(format!("calls of other CPUs: {error}"));
            Vec::new()
        }),
        workers: search.workers,
        gaps,
    })
}

impl Search<'_, '_, '_> {
    /// Finds out what a task waits for. `None` for one that sleeps and waits for no lock: most
    /// tasks do, until there is work for them.
    fn wait(&self, task: &Task, queues: &mut Queues) -> Option<Wait> {
        let trace = self.unwinder.task(task);
        let on = self.awaited(task, &trace, queues);
        let uninterruptible = task.state == 'D';
        let is_lock = on.as_ref().is_some_and(|on| on.kind.is_lock());
        if !uninterruptible && !is_lock {
            return None;
        }
        let io = self.program.value(task.address, "task_struct", "in_iowait");
        Some(Wait {
            task: TaskName::of(task),
            since_nsec: self.clock.since(self.program, task.address, task.cpu),
            uninterruptible,
            io: io.is_ok_and(|io| io != 0),
            at: own_frames(&trace).next().map(place),
            on,
        })
    }

    fn awaited(&self, task: &Task, trace: &Trace, queues: &mut Queues) -> Option<Awaited> {
        let program = self.program;
        let waiter = program.value(task.address, "task_struct", "pi_blocked_on");
        if let Some(waiter) = waiter.ok().filter(|waiter| *waiter != 0) {
            let lock = program.pointer(VirtAddr(waiter), "rt_mutex_waiter", "lock");
            let kind = match calls(trace).any(|name| is_one_of(name, &OF_FUTEXES)) {
                true => WaitKind::Futex,
                false => WaitKind::RtMutex,
            };
            return Some(self.describe(kind, lock.ok()?));
        }
        let found = self.queued(task, trace, queues)?;
        if found.kind == WaitKind::Completion
            && let Ok(Some(holders)) =
                workers::flushed(program, &self.workers, task.address, found.object)
        {
            let holders = holders.into_iter();
            return Some(Awaited {
                holders: holders
                    .map(|task| self.holder(task, Holds::Worker))
                    .collect(),
                ..self.describe(WaitKind::Work, found.object)
            });
        }
        if found.kind == WaitKind::WaitQueue
            && let Some(mut bit) = AwaitedBit::of(program, found.waiter)
        {
            if bit.may_be_buffer(program) && self.objects.is_buffer(bit.object) {
                bit.kind = WaitKind::Buffer;
            }
            return Some(Awaited {
                state: bit.state(program),
                ..self.describe(bit.kind, bit.object)
            });
        }
        Some(self.describe(found.kind, found.object))
    }

    /// Searches the frames of a task that waits for its waiter.
    fn queued(&self, task: &Task, trace: &Trace, queues: &mut Queues) -> Option<Queued> {
        let frames = trace.frames.windows(2).take(MAX_WAITING_FRAMES);
        frames
            .filter_map(|pair| match pair {
                [inner, outer] => Some((inner, outer)),
                _ => None,
            })
            .filter(|(inner, _)| inner.sure)
            .find_map(|(inner, outer)| {
                let words = words(self.program, inner.sp, outer.sp);
                queues.find(task.address, function(inner), inner.sp, &words)
            })
    }

    fn describe(&self, kind: WaitKind, object: VirtAddr) -> Awaited {
        let Owned { state, owner, .. } = owner(self.program, kind, object);
        let symbol = self.program.symbol_at(object);
        Awaited {
            kind,
            address: object,
            symbol: symbol.map(|found| found.to_string()),
            thing: self.objects.of(kind, object, &self.tasks),
            state,
            holders: owner
                .map(|(task, holds)| self.holder(task, holds))
                .into_iter()
                .collect(),
        }
    }

    fn task(&self, address: VirtAddr) -> Option<&Task> {
        let index = self.by_address.get(&address)?;
        self.tasks.get(*index)
    }

    fn holder(&self, address: VirtAddr, holds: Holds) -> Holder {
        let alive = self.task(address).filter(|task| !"XZ".contains(task.state));
        Holder {
            task: alive.map(TaskName::of),
            address,
            holds,
        }
    }

    /// Adds the tasks that have the address of a lock on their stacks to its holders, where the
    /// lock names none, or only the last one of several.
    fn add_readers(&self, waits: &mut [Wait], stop: &Stop) {
        let mut locks = HashSet::new();
        let mut waiting: HashMap<VirtAddr, HashSet<VirtAddr>> = HashMap::new();
        for wait in waits.iter() {
            let Some(on) = wait.on.as_ref().filter(|on| needs_stacks(on)) else {
                continue;
            };
            locks.insert(on.address);
            waiting
                .entry(on.address)
                .or_default()
                .insert(wait.task.address);
        }
        if locks.is_empty() {
            return;
        }
        let mut found = ByLock::new();
        for task in &self.tasks {
            if stop.is_set() {
                break;
            }
            for lock in on_stack(self.program, &self.unwinder.task(task), &locks) {
                let waits = waiting.get(&lock);
                if !waits.is_some_and(|waiting| waiting.contains(&task.address)) {
                    found.entry(lock).or_default().push(task.address);
                }
            }
        }
        for on in waits.iter_mut().filter_map(|wait| wait.on.as_mut()) {
            if !needs_stacks(on) {
                continue;
            }
            for task in found
                .get(&on.address)
                .into_iter()
                .flatten()
                .take(MAX_ON_STACK)
            {
                match on.holders.iter_mut().find(|known| known.address == *task) {
                    Some(known) => known.holds = Holds::OnStack,
                    None => on.holders.push(self.holder(*task, Holds::OnStack)),
                }
            }
            // Of two signs, the stack is the better one.
            let is_better = |holder: &Holder| holder.holds == Holds::OnStack;
            if on.holders.iter().any(is_better) {
                on.holders.retain(is_better);
            }
        }
    }

    fn root(&self, graph: &Graph, address: VirtAddr, waits: &[usize]) -> Root {
        let task = self.task(address).filter(|task| !"XZ".contains(task.state));
        let trace = task.map(|task| self.unwinder.task(task));
        let frames = trace.iter().flat_map(own_frames).take(SHOWN_FRAMES);
        Root {
            task: task.map(TaskName::of),
            waits: waits.to_vec(),
            behind: graph.all_behind(&HashSet::from([address])),
            does: frames.map(place).collect(),
            since_nsec: task
                .filter(|task| !task.on_cpu)
                .and_then(|task| self.clock.since(self.program, task.address, task.cpu)),
        }
    }
}

/// The functions that may have a task's waiter.
fn calls(trace: &Trace) -> impl Iterator<Item = &str> {
    trace.frames.iter().take(MAX_WAITING_FRAMES).map(function)
}

fn is_one_of(name: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|known| name.starts_with(known))
}

/// Returns true for a lock whose holders it does not name, or not all of them.
fn needs_stacks(on: &Awaited) -> bool {
    let is_named = |holder: &Holder| holder.holds.is_certain();
    matches!(
        on.kind,
        WaitKind::Rwsem | WaitKind::Semaphore | WaitKind::Page | WaitKind::Buffer
    ) && !on.holders.iter().any(is_named)
}
