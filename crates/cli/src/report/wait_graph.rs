//! The picture of who waits for whom: tasks that wait for each other, and the tasks behind which
//! others wait, each with those below it.

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;
use bigiron_inspect::Waits;
use bigiron_inspect::waits::{Awaited, Root, Wait};
use bigiron_svg::{TreeBox, Trees};

/// Maximum number of boxes, of tasks that are shown below one, and of tasks above one.
const MAX_BOXES: usize = 80;
const MAX_BELOW: usize = 8;
const MAX_DEPTH: usize = 16;
/// Functions shown of a task that others wait for.
const SHOWN_FUNCTIONS: usize = 4;
/// Maximum length of a text.
const MAX_TEXT: usize = 200;

/// Draws who waits for whom, and returns the picture, if anybody waits for a task that is known,
/// with the number of tasks in it.
pub(crate) fn draw(waits: &Waits) -> (Option<String>, usize) {
    let mut forest = Forest::of(waits);
    for cycle in &waits.cycles {
        forest.cycle(&cycle.waits);
    }
    for root in &waits.roots {
        forest.root(root);
    }
    for call in &waits.calls {
        forest.call(call);
    }
    let shown = forest.tasks;
    let svg = (!forest.boxes.is_empty()).then(|| {
        let trees = Trees {
            title: "Who waits for whom".into(),
            subtitle: "Below each task those that wait for it; in colour where it begins".into(),
            boxes: forest.boxes,
        };
        trees.svg()
    });
    (svg, shown)
}

struct Forest<'w> {
    waits: &'w [Wait],
    /// The waits for a task.
    behind: HashMap<VirtAddr, Vec<usize>>,
    seen: HashSet<VirtAddr>,
    boxes: Vec<TreeBox>,
    tasks: usize,
}

impl<'w> Forest<'w> {
    fn of(waits: &'w Waits) -> Self {
        let mut behind: HashMap<VirtAddr, Vec<usize>> = HashMap::new();
        for (index, wait) in waits.waits.iter().enumerate() {
            for holder in wait.on.iter().flat_map(|on| &on.holders) {
                behind.entry(holder.address).or_default().push(index);
            }
        }
        Self {
            waits: &waits.waits,
            behind,
            seen: HashSet::new(),
            boxes: Vec::new(),
            tasks: 0,
        }
    }

    fn add(&mut self, depth: usize, name: &str, detail: &str, strong: bool) -> usize {
        self.boxes.push(TreeBox {
            depth,
            name: short(name),
            detail: short(detail),
            strong,
            back: None,
        });
        self.boxes.len() - 1
    }

    fn is_full(&self) -> bool {
        self.boxes.len() >= MAX_BOXES
    }

    /// Adds tasks each of which waits for the next one, and the last one for the first: the first
    /// one with each that waits for it below, from which an arrow leads back.
    fn cycle(&mut self, waits: &[usize]) {
        let mut first = None;
        // Below each task is the one that waits for it: the one before.
        for (depth, index) in waits.iter().rev().enumerate() {
            let Some(wait) = self.waits.get(*index) else {
                continue;
            };
            if self.is_full() || !self.seen.insert(wait.task.address) {
                break;
            }
            self.tasks += 1;
            let number = self.add(depth, &name(wait), &detail(wait), true);
            let first = *first.get_or_insert(number);
            if depth + 1 == waits.len()
                && let Some(last) = self.boxes.get_mut(number)
            {
                last.back = Some(first);
            }
        }
    }

    fn root(&mut self, root: &Root) {
        if self.is_full() {
            return;
        }
        let (task, address) = match &root.task {
            Some(task) => (format!("{task}, {}", task.state), Some(task.address)),
            None => ("a task that has ended".to_owned(), None),
        };
        if address.is_some_and(|address| !self.seen.insert(address)) {
            return;
        }
        self.tasks += usize::from(address.is_some());
        let functions: Vec<&str> = root
            .does
            .iter()
            .take(SHOWN_FUNCTIONS)
            .map(String::as_str)
            .collect();
        let does = match functions.as_slice() {
            [] => "what it does is not known".to_owned(),
            functions => format!("in {}", functions.join(" < ")),
        };
        self.add(0, &task, &does, true);
        self.below(&root.waits);
    }

    /// Adds the tasks that wait for the task of the last box, and those that wait for them.
    fn below(&mut self, waits: &[usize]) {
        // What is left to be shown, the next one last: a wait, or the number of those left out.
        let mut left = Vec::new();
        push(&mut left, waits, 1);
        while let Some((next, depth)) = left.pop() {
            if self.is_full() {
                return;
            }
            let wait = match next {
                Next::Wait(index) => self.waits.get(index),
                Next::More(count) => {
                    self.add(depth, &format!("{count} more tasks"), "wait for it", false);
                    continue;
                }
            };
            let Some(wait) = wait.filter(|wait| !self.seen.contains(&wait.task.address)) else {
                continue;
            };
            self.seen.insert(wait.task.address);
            self.tasks += 1;
            self.add(depth, &name(wait), &detail(wait), false);
            if depth < MAX_DEPTH
                && let Some(behind) = self.behind.get(&wait.task.address)
            {
                push(&mut left, behind, depth + 1);
            }
        }
    }

    fn call(&mut self, call: &bigiron_inspect::waits::Call) {
        if self.boxes.len() + 2 > MAX_BOXES {
            return;
        }
        let target = format!("CPU {}: {}", call.target, call.target_task);
        self.add(0, &target, &format!("in {}", call.does.join(" < ")), true);
        let function = call.function.as_deref().unwrap_or("a function");
        let detail = format!("waits until CPU {} has called {function}", call.target);
        self.add(
            1,
            &format!("CPU {}: {}", call.cpu, call.task),
            &detail,
            false,
        );
        self.tasks += 2;
    }
}

/// What is to be shown.
enum Next {
    Wait(usize),
    More(usize),
}

fn push(left: &mut Vec<(Next, usize)>, waits: &[usize], depth: usize) {
    let more = waits.len().saturating_sub(MAX_BELOW);
    if more > 0 {
        left.push((Next::More(more), depth));
    }
    let shown = waits.iter().take(MAX_BELOW).rev();
    left.extend(shown.map(|index| (Next::Wait(*index), depth)));
}

/// Formats as `sh (PID 87), D, for 12.3 s`.
fn name(wait: &Wait) -> String {
    let since = wait
        .since_nsec
        .map(|since| format!(", for {:.1} s", since as f64 / 1e9));
    format!(
        "{}, {}{}",
        wait.task,
        wait.task.state,
        since.unwrap_or_default()
    )
}

fn detail(wait: &Wait) -> String {
    let sure = |on: &Awaited| on.holders.iter().all(|holder| holder.holds.is_certain());
    match &wait.on {
        Some(on) => format!(
            "waits for {on}{}",
            if sure(on) { "" } else { " (not certain)" }
        ),
        None => format!("waits in {}", wait.place()),
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use bigiron_inspect::waits::{Cycle, Holder, Holds, TaskName, WaitKind};

    use super::*;

    fn task(number: u64) -> TaskName {
        TaskName {
            pid: number as i32,
            name: format!("task<{number}>"),
            state: 'D',
            address: VirtAddr(number),
        }
    }

    /// A task that waits for a mutex that another one has.
    fn wait(number: u64, holder: u64) -> Wait {
        Wait {
            task: task(number),
            since_nsec: Some(12_300_000_000),
            uninterruptible: true,
            io: false,
            at: None,
            on: Some(Awaited {
                kind: WaitKind::Mutex,
                address: VirtAddr(4096 + holder),
                symbol: Some("a & b".into()),
                thing: None,
                state: None,
                holders: vec![Holder {
                    task: Some(task(holder)),
                    address: VirtAddr(holder),
                    holds: Holds::Owner,
                }],
            }),
        }
    }

    fn root(number: u64, waits: Vec<usize>) -> Root {
        Root {
            task: Some(task(number)),
            behind: waits.len(),
            waits,
            does: vec!["sleep+0x1".into()],
            since_nsec: None,
        }
    }

    #[test]
    fn nobody_waits_without_a_picture() {
        assert_eq!(draw(&Waits::default()), (None, 0));
    }

    #[test]
    fn tasks_are_below_the_one_that_they_wait_for() {
        let waits = Waits {
            // 3 waits for 2, and 2 for 1.
            waits: vec![wait(2, 1), wait(3, 2)],
            roots: vec![root(1, vec![0])],
            ..Waits::default()
        };
        let (svg, shown) = draw(&waits);
        let svg = svg.unwrap();
        assert_eq!(shown, 3);
        let place = |text: &str| svg.find(text).unwrap_or_else(|| panic!("{text}: {svg}"));
        assert!(
            place("task&lt;1&gt; (PID 1), D<") < place("task&lt;2&gt; (PID 2), D, for 12.3 s<")
        );
        assert!(place("(PID 2)") < place("(PID 3)"));
        assert!(svg.contains("waits for mutex a &amp; b (0x") && svg.contains("in sleep+0x1"));
        assert_eq!(svg.matches("l11 -5.5v11z").count(), 0);
    }

    #[test]
    fn cycle_has_an_arrow_back_and_each_task_once() {
        let waits = Waits {
            waits: vec![wait(1, 2), wait(2, 1)],
            cycles: vec![Cycle {
                waits: vec![0, 1],
                certain: true,
                behind: 0,
            }],
            ..Waits::default()
        };
        let (svg, shown) = draw(&waits);
        let svg = svg.unwrap();
        assert_eq!((shown, svg.matches("l11 -5.5v11z").count()), (2, 1));
        assert_eq!(svg.matches("rx=\"8\"").count(), 2);
    }

    #[test]
    fn many_waiters_are_counted_and_the_picture_is_bounded() {
        let waits: Vec<Wait> = (2..100_000).map(|number| wait(number, 1)).collect();
        let count = waits.len();
        let waits = Waits {
            roots: vec![root(1, (0..count).collect())],
            waits,
            ..Waits::default()
        };
        let svg = draw(&waits).0.unwrap();
        assert_eq!(svg.matches("rx=\"8\"").count(), 2 + MAX_BELOW);
        assert!(svg.contains(&format!("{} more tasks", count - MAX_BELOW)));
        let chain = Waits {
            waits: (2..1000).map(|number| wait(number, number - 1)).collect(),
            roots: vec![root(1, vec![0])],
            ..Waits::default()
        };
        assert_eq!(draw(&chain).1, 1 + MAX_DEPTH);
        let roots = Waits {
            roots: (1..1000).map(|number| root(number, Vec::new())).collect(),
            ..Waits::default()
        };
        assert_eq!(draw(&roots).1, MAX_BOXES);
    }
}
