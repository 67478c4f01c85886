//! The graph of waiting tasks: cycles, and the tasks at its end.

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;
use serde::Serialize;

use super::task_name::TaskName;
use super::wait::Wait;

/// Maximum number of cycles reported; one is enough to stop a machine.
const MAX_CYCLES: usize = 64;

/// Tasks that wait for each other, each for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cycle {
    /// The tasks, as indices of [`super::Waits::waits`].
    pub waits: Vec<usize>,
    /// True if each holder is certain.
    pub certain: bool,
    /// Number of other tasks that wait for one of them.
    pub behind: usize,
}

/// A task for which others wait, and that does not wait for a known task itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Root {
    /// The task; `None` if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskName>,
    /// Indices in [`super::Waits::waits`] of the tasks that wait for it directly.
    pub waits: Vec<usize>,
    /// Number of all tasks that wait for it, directly or not.
    pub behind: usize,
    /// What it does: the functions that it is in, without those that merely wait.
    pub does: Vec<String>,
    /// Nanoseconds since it ran, if it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_nsec: Option<u64>,
}

/// A graph over waits.
pub struct Graph<'w> {
    waits: &'w [Wait],
    /// The wait of a task.
    by_task: HashMap<VirtAddr, usize>,
    /// The waits for a holder.
    behind: HashMap<VirtAddr, Vec<usize>>,
}

impl<'w> Graph<'w> {
    /// Builds the graph.
    pub fn new(waits: &'w [Wait]) -> Self {
        let all = waits.iter().enumerate();
        let by_task = all.clone().map(|(index, wait)| (wait.task.address, index));
        let mut behind: HashMap<VirtAddr, Vec<usize>> = HashMap::new();
        for (index, wait) in all.clone() {
            for holder in holders(wait) {
                behind.entry(holder).or_default().push(index);
            }
        }
        Self {
            waits,
            by_task: by_task.collect(),
            behind,
        }
    }

    /// Finds the cycles. A wait that leads into a cycle is not in it.
    pub fn cycles(&self) -> Vec<Cycle> {
        // 0: not seen; then the number of the walk that saw it.
        let mut seen = vec![0_usize; self.waits.len()];
        let mut cycles = Vec::new();
        for first in 0..self.waits.len() {
            let number = first + 1;
            // The way from `first`, with the holders of each that are left to try.
            let mut way: Vec<(usize, Vec<usize>)> = Vec::new();
            let mut on_way = HashSet::new();
            let mut next = Some(first);
            loop {
                if let Some(index) = next.take() {
                    if on_way.contains(&index) {
                        let start = way.iter().position(|(at, _)| *at == index).unwrap_or(0);
                        let waits: Vec<usize> = way.iter().skip(start).map(|(at, _)| *at).collect();
                        if cycles.len() < MAX_CYCLES {
                            cycles.push(self.cycle(waits));
                        }
                    } else if let Some(mark) = seen.get_mut(index).filter(|mark| **mark == 0) {
                        *mark = number;
                        on_way.insert(index);
                        let to = self.waits.get(index).map(|wait| self.followed(wait));
                        way.push((index, to.unwrap_or_default()));
                    }
                }
                let Some((index, left)) = way.last_mut() else {
                    break;
                };
                next = left.pop();
                if next.is_none() {
                    on_way.remove(index);
                    way.pop();
                }
            }
        }
        cycles
    }

    /// The waits of the tasks that `wait` waits for.
    fn followed(&self, wait: &Wait) -> Vec<usize> {
        let known = holders(wait).filter_map(|holder| self.by_task.get(&holder));
        known.copied().collect()
    }

    fn cycle(&self, waits: Vec<usize>) -> Cycle {
        let of = |index: &usize| self.waits.get(*index);
        let addresses: HashSet<VirtAddr> = waits
            .iter()
            .filter_map(|index| Some(of(index)?.task.address))
            .collect();
        let certain = waits.iter().filter_map(of).all(|wait| {
            let holders = wait.on.iter().flat_map(|on| &on.holders);
            holders
                .filter(|holder| addresses.contains(&holder.address))
                .any(|holder| holder.holds.is_certain())
        });
        Cycle {
            certain,
            behind: self.all_behind(&addresses).saturating_sub(waits.len()),
            waits,
        }
    }

    /// Counts the tasks that wait for one of `tasks`, directly or not.
    pub fn all_behind(&self, tasks: &HashSet<VirtAddr>) -> usize {
        let mut seen = HashSet::new();
        let mut left: Vec<VirtAddr> = tasks.iter().copied().collect();
        while let Some(task) = left.pop() {
            for index in self.behind.get(&task).into_iter().flatten() {
                if seen.insert(*index)
                    && let Some(wait) = self.waits.get(*index)
                {
                    left.push(wait.task.address);
                }
            }
        }
        seen.len()
    }

    /// The holders that do not wait for a known task, with the waits for each.
    pub fn ends(&self) -> Vec<(VirtAddr, &[usize])> {
        let goes_on = |task: &VirtAddr| {
            let wait = self
                .by_task
                .get(task)
                .and_then(|index| self.waits.get(*index));
            wait.is_some_and(|wait| holders(wait).next().is_some())
        };
        let ends = self.behind.iter().filter(|(task, _)| !goes_on(task));
        let mut ends: Vec<_> = ends
            .map(|(task, waits)| (*task, waits.as_slice()))
            .collect();
        ends.sort_by_key(|(task, _)| *task);
        ends
    }
}

fn holders(wait: &Wait) -> impl Iterator<Item = VirtAddr> + '_ {
    let holders = wait.on.iter().flat_map(|on| &on.holders);
    holders.map(|holder| holder.address)
}

#[cfg(test)]
mod tests {
    use super::super::holder::{Holder, Holds};
    use super::super::kind::WaitKind;
    use super::super::wait::Awaited;
    use super::*;

    /// A task that waits for a lock that others have.
    fn wait(task: u64, holders: &[u64], holds: Holds) -> Wait {
        let name = |task: u64| TaskName {
            pid: task as i32,
            name: format!("task{task}"),
            state: 'D',
            address: VirtAddr(task),
        };
        let holder = |task: &u64| Holder {
            task: Some(name(*task)),
            address: VirtAddr(*task),
            holds,
        };
        Wait {
            task: name(task),
            since_nsec: None,
            uninterruptible: true,
            io: false,
            at: None,
            on: Some(Awaited {
                kind: WaitKind::Mutex,
                address: VirtAddr(1000 + task),
                symbol: None,
                thing: None,
                state: None,
                holders: holders.iter().map(holder).collect(),
            }),
        }
    }

    fn owned(edges: &[(u64, &[u64])]) -> Vec<Wait> {
        let waits = edges.iter();
        waits
            .map(|(task, holders)| wait(*task, holders, Holds::Owner))
            .collect()
    }

    #[test]
    fn cycle_is_found_once_and_without_those_behind_it() {
        // 5 and 6 wait behind the cycle of 1, 2 and 3.
        let waits = owned(&[(5, &[1]), (1, &[2]), (2, &[3]), (3, &[1]), (6, &[5])]);
        let graph = Graph::new(&waits);
        let cycles = graph.cycles();
        assert_eq!(cycles.len(), 1);
        let mut tasks = cycles[0].waits.clone();
        tasks.sort_unstable();
        assert_eq!(tasks, [1, 2, 3]);
        assert!(cycles[0].certain);
        assert_eq!(cycles[0].behind, 2);
        assert_eq!(graph.ends(), []);
    }

    #[test]
    fn cycle_by_one_of_several_holders_is_found() {
        let waits = owned(&[(1, &[7, 2, 8]), (2, &[9, 1])]);
        let cycles = Graph::new(&waits).cycles();
        assert_eq!(cycles.len(), 1);
        assert_eq!(cycles[0].waits.len(), 2);
    }

    #[test]
    fn task_that_waits_for_itself_is_a_cycle() {
        let waits = owned(&[(1, &[1])]);
        let cycles = Graph::new(&waits).cycles();
        assert_eq!(
            (cycles.len(), cycles[0].waits.as_slice()),
            (1, [0].as_slice())
        );
    }

    #[test]
    fn cycle_is_as_certain_as_its_least_certain_holder() {
        let waits = [
            wait(1, &[2], Holds::Owner),
            wait(2, &[1], Holds::LastReader),
        ];
        let cycles = Graph::new(&waits).cycles();
        assert!(!cycles[0].certain);
    }

    #[test]
    fn ends_are_the_holders_that_wait_for_nobody() {
        let waits = owned(&[(1, &[2]), (2, &[3]), (4, &[3]), (5, &[])]);
        let graph = Graph::new(&waits);
        assert_eq!(graph.ends(), [(VirtAddr(3), [1, 2].as_slice())]);
        assert_eq!(graph.all_behind(&HashSet::from([VirtAddr(3)])), 3);
        assert!(graph.cycles().is_empty());
    }

    #[test]
    fn long_chains_and_many_waiters_are_no_recursion() {
        let chain: Vec<Wait> = (0..100_000)
            .map(|task| wait(task, &[task + 1], Holds::Owner))
            .collect();
        let graph = Graph::new(&chain);
        assert!(graph.cycles().is_empty());
        assert_eq!(graph.ends().len(), 1);
        assert_eq!(
            graph.all_behind(&HashSet::from([VirtAddr(100_000)])),
            100_000
        );
    }
}
