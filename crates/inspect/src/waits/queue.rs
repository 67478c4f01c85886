//! Finds the object in whose list of waiters a task is.

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;

use super::kind::{QUEUE_KINDS, QueueKind, WaitKind};
use crate::error::InspectError;
use crate::program::Program;
use crate::user::registers::stack_size;

/// Maximum number of waiters in a list.
const MAX_WAITERS: usize = 1 << 20;

/// The layout of a kind of waiters in this kernel.
struct Layout {
    kind: &'static QueueKind,
    /// Offsets of the waiter's link, of its task, and of its function if it has one.
    link: u64,
    task: u64,
    function: Option<u64>,
    /// Offset of the list's head in the object.
    head: u64,
}

/// Where the stacks of tasks are: the offset of the pointer in struct task_struct, and their size.
#[derive(Clone, Copy)]
struct Stacks {
    pointer: u64,
    size: u64,
}

/// The lists of waiters of a kernel.
pub struct Queues<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    layouts: Vec<Layout>,
    tasks: HashSet<VirtAddr>,
    /// `None` if the kernel's types do not tell.
    stacks: Option<Stacks>,
    /// The head of each list that was walked, by its links.
    heads: HashMap<VirtAddr, Option<VirtAddr>>,
}

/// An object, and the waiter through which it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    pub kind: WaitKind,
    pub object: VirtAddr,
    pub waiter: VirtAddr,
}

impl<'p, 'k, 's> Queues<'p, 'k, 's> {
    /// Reads the layouts from the kernel's types; `gaps` gets those that it does not have.
    pub fn new(
        program: &'p Program<'k, 's>,
        tasks: HashSet<VirtAddr>,
        gaps: &mut Vec<String>,
    ) -> Self {
        let mut layouts = Vec::new();
        for kind in QUEUE_KINDS {
            match Layout::of(program, kind) {
                Ok(layout) => layouts.push(layout),
                Err(error) => gaps.push(format!("waiters of a {}: {error}", kind.kind.word())),
            }
        }
        Self {
            program,
            layouts,
            tasks,
            stacks: program
                .locate("task_struct", "stack")
                .ok()
                .map(|member| Stacks {
                    pointer: member.offset,
                    size: stack_size(program),
                }),
            heads: HashMap::new(),
        }
    }

    /// Finds what `task` waits for in a frame of its stack. `words` are the frame's, the first
    /// at `start`; `function` is its function.
    pub fn find(
        &mut self,
        task: VirtAddr,
        function: &str,
        start: VirtAddr,
        words: &[u64],
    ) -> Option<Queued> {
        let places = words.iter().enumerate();
        let places = places.filter(|(_, word)| **word == task.0);
        let places: Vec<u64> = places
            .map(|(index, _)| start.0.wrapping_add(8 * index as u64))
            .collect();
        for index in 0..self.layouts.len() {
            let layout = self.layouts.get(index)?;
            let kind = layout.kind;
            let is_any = kind.functions.is_empty();
            if !is_any
                && !kind
                    .functions
                    .iter()
                    .any(|known| function.starts_with(known))
            {
                continue;
            }
            for place in &places {
                let waiter = place.wrapping_sub(self.layouts.get(index)?.task);
                if let Some(object) = self.object(index, waiter) {
                    return Some(Queued {
                        kind: kind.kind,
                        object,
                        waiter: VirtAddr(waiter),
                    });
                }
            }
        }
        None
    }

    /// Returns the object in whose list the waiter is; `None` if it is in no intact list.
    fn object(&mut self, index: usize, waiter: u64) -> Option<VirtAddr> {
        let layout = self.layouts.get(index)?;
        let link = VirtAddr(waiter.wrapping_add(layout.link));
        let offset = layout.head;
        let head = match self.heads.get(&link) {
            Some(head) => *head,
            None => {
                let (links, head) = self.walk(layout, link)?;
                for link in links {
                    self.heads.insert(link, head);
                }
                head
            }
        };
        head.map(|head| VirtAddr(head.0.wrapping_sub(offset)))
    }

    /// Walks the ring that `first` is in. Exactly one link in it is not a waiter's: the head.
    fn walk(&self, layout: &Layout, first: VirtAddr) -> Option<(Vec<VirtAddr>, Option<VirtAddr>)> {
        let (mut links, mut head) = (Vec::new(), None);
        let mut seen = HashSet::new();
        let mut at = first;
        loop {
            if !seen.insert(at) || seen.len() > MAX_WAITERS {
                return None;
            }
            match self.is_waiter(layout, at) {
                true => links.push(at),
                false if head.is_none() => head = Some(at),
                false => return None,
            }
            let next = VirtAddr(self.word(at.0).ok()?);
            if VirtAddr(self.word(next.0.wrapping_add(8)).ok()?) != at {
                return None;
            }
            if next == first {
                return Some((links, head));
            }
            at = next;
        }
    }

    fn is_waiter(&self, layout: &Layout, link: VirtAddr) -> bool {
        let waiter = link.0.wrapping_sub(layout.link);
        let word = |offset| self.word(waiter.wrapping_add(offset)).ok();
        match layout.function {
            Some(function) => word(function)
                .is_some_and(|function| self.program.symbol_at(VirtAddr(function)).is_some()),
            None => word(layout.task)
                .map(VirtAddr)
                .filter(|task| self.tasks.contains(task))
                .is_some_and(|task| self.is_on_stack(link, task)),
        }
    }

    /// False for an address that is not on the stack of a task. A waiter is: behind a list's head,
    /// there may be a pointer to a task as well, such as the owner of the next mutex.
    fn is_on_stack(&self, link: VirtAddr, task: VirtAddr) -> bool {
        let Some(stacks) = self.stacks else {
            return true;
        };
        let stack = self.word(task.0.wrapping_add(stacks.pointer));
        stack.is_ok_and(|stack| stacks.has(stack, link.0))
    }

    fn word(&self, at: u64) -> Result<u64, InspectError> {
        self.program.number(VirtAddr(at), 8)
    }
}

impl Stacks {
    /// Returns true for an address on the stack that begins at `stack`.
    fn has(self, stack: u64, address: u64) -> bool {
        address
            .checked_sub(stack)
            .is_some_and(|distance| distance < self.size)
    }
}

impl Layout {
    fn of(program: &Program, kind: &'static QueueKind) -> Result<Self, InspectError> {
        let offset = |name: &str, path: &str| -> Result<u64, InspectError> {
            Ok(program.locate(name, path)?.offset)
        };
        let [waiter, link, task] = kind.waiter;
        let function = kind.function.map(|path| offset(waiter, path));
        Ok(Self {
            kind,
            link: offset(waiter, link)?,
            task: offset(waiter, task)?,
            function: function.transpose()?,
            head: offset(kind.object[0], kind.object[1])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_on_a_stack_from_its_first_byte_to_its_last() {
        let stacks = Stacks {
            pointer: 0x20,
            size: 0x4000,
        };
        let stack = 0xffff_8000_804d_8000;
        for (address, expected) in [
            (stack - 8, false),
            (stack, true),
            (stack + 0x3ff8, true),
            (stack + 0x4000, false),
        ] {
            assert_eq!(stacks.has(stack, address), expected, "{address:#x}");
        }
    }
}
