//! Holders that a lock does not name: tasks with its address on their stacks.

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;

use super::frames::words;
use crate::program::Program;
use crate::stack::Trace;

/// Returns which of `locks` are on a stack.
pub fn on_stack(program: &Program, trace: &Trace, locks: &HashSet<VirtAddr>) -> HashSet<VirtAddr> {
    let mut found = HashSet::new();
    for pair in trace.frames.windows(2) {
        let [inner, outer] = pair else { continue };
        let words = words(program, inner.sp, outer.sp).into_iter().map(VirtAddr);
        found.extend(words.filter(|word| locks.contains(word)));
    }
    found
}

/// Tasks by the locks that are on their stacks.
pub type ByLock = HashMap<VirtAddr, Vec<VirtAddr>>;
