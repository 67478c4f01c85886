//! Processors on which helpers run.

use std::sync::OnceLock;

use bigiron_helpers::{MAX_BARE_THREADS, ThreadId};

use crate::region::Region;

/// Number of processors in a mask: the maximum of NR_CPUS on any architecture.
const MAX_PROCESSORS: usize = 8192;
/// Maximum number of nodes (CONFIG_NODES_SHIFT is at most 10).
const MAX_NODES: usize = 1024;
const WORD: usize = u64::BITS as usize;
const MASK: usize = MAX_PROCESSORS / WORD;

/// A set of processors, as passed to `sched_setaffinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mask([u64; MASK]);

impl Mask {
    const NONE: Self = Self([0; MASK]);

    fn insert(&mut self, processor: usize) {
        if let Some(word) = self.0.get_mut(processor / WORD) {
            *word |= 1 << (processor % WORD);
        }
    }

    /// Removes the processors that are not in `other`.
    fn keep(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    /// Adds the processors that are in both `one` and `other`.
    fn add_common(&mut self, one: &Self, other: &Self) {
        for (word, (one, other)) in self.0.iter_mut().zip(one.0.iter().zip(&other.0)) {
            *word |= one & other;
        }
    }

    fn meets(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .any(|(word, other)| word & other != 0)
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Replaces the set by that of the calling thread; empties it if the kernel does not report
    /// one.
    fn inherit(&mut self) {
        // SAFETY: the kernel writes at most the given length into the mask. The
        // system call itself takes masks longer than glibc's cpu_set_t.
        let length = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                0,
                size_of_val(&self.0),
                self.0.as_mut_ptr(),
            )
        };
        if length <= 0 {
            self.0.fill(0);
        }
    }
}

/// Properties of the machine that do not change while the program runs.
struct Facts {
    /// Processor time that the control group allows, in whole processors.
    quota: usize,
    /// Processors of each node; empty if there is only one node.
    nodes: Vec<(usize, Mask)>,
}

static FACTS: OnceLock<Facts> = OnceLock::new();

/// Reads nodes and control-group quota once. This allocates, and is therefore called before an
/// allocator's first operation. Without it the machine is assumed to have one node.
pub fn prepare() {
    // Both are determined at first use, when rustix may open a file and allocate.
    let _ = rustix::param::page_size();
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    FACTS.get_or_init(|| Facts {
        quota: bigiron_helpers::processor_count(),
        nodes: if has_one_node() {
            Vec::new()
        } else {
            read_nodes("/sys/devices/system/node")
        },
    });
}

/// True if the kernel's short list of nodes names one only, as on most machines.
fn has_one_node() -> bool {
    std::fs::read("/sys/devices/system/node/online").is_ok_and(|online| online == b"0\n")
}

fn read_nodes(directory: &str) -> Vec<(usize, Mask)> {
    let mut nodes: Vec<(usize, Mask)> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let number = entry
                .file_name()
                .to_str()?
                .strip_prefix("node")?
                .parse()
                .ok()?;
            let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
            Some((number, parse_list(list.trim())?))
        })
        .filter(|(number, _)| *number < MAX_NODES)
        .collect();
    nodes.sort_by_key(|(number, _)| *number);
    if nodes.len() < 2 { Vec::new() } else { nodes }
}

/// Parses a list such as `0-3,8`; empty for a node without processors.
fn parse_list(list: &str) -> Option<Mask> {
    let mut mask = Mask::NONE;
    for range in list.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first..=last.min(MAX_PROCESSORS)).for_each(|processor| mask.insert(processor));
    }
    Some(mask)
}

/// Processors for one operation: those that this thread may use, on the nodes of the memory.
pub struct Processors {
    all: Mask,
    quota: usize,
    /// Indexes into the nodes of [`Facts`]; helpers are distributed over them in turn.
    nodes: [u16; MAX_BARE_THREADS],
    node_count: usize,
}

impl Processors {
    /// Returns the processors for the memory of `regions`. If the memory or the thread has a
    /// policy, helpers run on the policy's nodes. Without a policy, memory comes from the node
    /// that touches it first: helpers stay on this thread's node, as with the plain call, or
    /// run on all nodes with `spread`.
    pub(super) fn for_memory(regions: impl Iterator<Item = Region>, spread: bool) -> Self {
        let mut processors = Self {
            all: Mask::NONE,
            quota: FACTS.get().map_or(usize::MAX, |facts| facts.quota),
            nodes: [0; MAX_BARE_THREADS],
            node_count: 0,
        };
        processors.all.inherit();
        if let Some(facts) = FACTS.get().filter(|facts| !facts.nodes.is_empty()) {
            processors.choose_nodes(facts, regions, spread);
        }
        processors
    }

    fn choose_nodes(&mut self, facts: &Facts, regions: impl Iterator<Item = Region>, spread: bool) {
        let mut wanted = [0_u64; MAX_NODES / WORD];
        if spread {
            wanted.fill(u64::MAX);
        } else {
            regions
                .take(MAX_BARE_THREADS)
                .for_each(|region| add_policy(region, &mut wanted));
        }
        let anywhere = wanted.iter().all(|word| *word == 0);
        let home = current_node();
        let mut all = Mask::NONE;
        for (at, (number, mask)) in facts.nodes.iter().enumerate() {
            let word = wanted.get(number / WORD).copied().unwrap_or(0);
            let named = word & (1 << (number % WORD)) != 0;
            if !(named || anywhere && Some(*number) == home) || !mask.meets(&self.all) {
                continue;
            }
            if let Some(place) = self.nodes.get_mut(self.node_count) {
                *place = at as u16;
                self.node_count += 1;
                all.add_common(mask, &self.all);
            }
        }
        if self.node_count > 0 {
            self.all = all;
        }
    }

    /// Returns the number of helpers that can work at the same time.
    pub fn count(&self) -> usize {
        self.all.count().clamp(1, self.quota.max(1))
    }

    /// Binds a helper to the processors of its node, if the machine has several nodes. The
    /// scheduler chooses among them: a helper bound to a single processor would wait behind
    /// other threads there.
    pub(super) fn place(&self, helper: usize, thread: ThreadId) {
        let Some(facts) = FACTS.get().filter(|_| self.node_count > 0) else {
            return;
        };
        let at = self
            .nodes
            .get(helper % self.node_count)
            .copied()
            .unwrap_or(0);
        let Some((_, node)) = facts.nodes.get(usize::from(at)) else {
            return;
        };
        let mut mask = *node;
        mask.keep(&self.all);
        // SAFETY: the kernel reads the mask. If it refuses, the helper runs where this thread
        // may.
        unsafe {
            libc::syscall(
                libc::SYS_sched_setaffinity,
                thread.0,
                size_of_val(&mask.0),
                mask.0.as_ptr(),
            )
        };
    }
}

/// Adds the nodes from which the policy of a region takes memory; none if memory comes from the
/// node that touches it first. See get_mempolicy(2).
fn add_policy(region: Region, nodes: &mut [u64; MAX_NODES / WORD]) {
    /// Flag: the policy of an address, not of the thread.
    const MPOL_F_ADDR: usize = 2;
    const MPOL_LOCAL: i32 = 4;
    let mut mode = 0_i32;
    let mut named = [0_u64; MAX_NODES / WORD];
    // SAFETY: the kernel writes a mode and at most this many nodes. It uses the thread's policy
    // if the region has none (do_get_mempolicy of mm/mempolicy.c).
    let status = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &mut mode,
            named.as_mut_ptr(),
            MAX_NODES,
            region.start(),
            MPOL_F_ADDR,
        )
    };
    if status == 0 && mode & 0xff != MPOL_LOCAL {
        nodes
            .iter_mut()
            .zip(named)
            .for_each(|(all, one)| *all |= one);
    }
}

/// Returns the node of the processor that this thread runs on.
fn current_node() -> Option<usize> {
    let (mut processor, mut node) = (0_u32, 0_u32);
    // SAFETY: the kernel writes two numbers.
    let status = unsafe { libc::syscall(libc::SYS_getcpu, &mut processor, &mut node, 0) };
    (status == 0).then_some(node as usize)
}

/// True if a signal that ends the program is pending: the program must not wait for gigabytes.
/// Signals with a handler wait, as during a system call; so do those in `blocked`, which the
/// program had blocked before.
pub(super) fn must_end(blocked: u64) -> bool {
    /// Signals that do not end a program by default: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG,
    /// WINCH.
    const HARMLESS: [i32; 8] = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    let mut pending = 0_u64;
    // SAFETY: the kernel writes a number of the given size.
    let status =
        unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, size_of::<u64>()) };
    let waiting = pending & !blocked;
    if status != 0 || waiting == 0 {
        return false;
    }
    (1..=64).any(|signal| {
        if waiting & (1 << (signal - 1)) == 0 || HARMLESS.contains(&signal) {
            return false;
        }
        // SAFETY: an action of zeros is valid, and the call fills it.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action) == 0
                && action.sa_sigaction == libc::SIG_DFL
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bigiron_helpers::held_signals;

    #[test]
    fn processor_lists_are_parsed() {
        assert_eq!(parse_list("0-3,8,70-71").map(|mask| mask.count()), Some(7));
        assert_eq!(parse_list("").map(|mask| mask.count()), Some(0));
        assert_eq!(
            parse_list("0-99999999999").map(|mask| mask.count()),
            Some(MAX_PROCESSORS)
        );
        assert_eq!(parse_list("a"), None);
    }

    #[test]
    fn one_node_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let add = |name: &str, list: &str| {
            let node = directory.path().join(name);
            std::fs::create_dir(&node).unwrap();
            std::fs::write(node.join("cpulist"), list).unwrap();
        };
        let path = directory.path().to_str().unwrap().to_owned();
        add("node0", "0-1\n");
        assert!(read_nodes(&path).is_empty());
        add("node1", "2-3\n");
        add("node2", "\n");
        let nodes: Vec<_> = read_nodes(&path)
            .into_iter()
            .map(|(number, mask)| (number, mask.count()))
            .collect();
        assert_eq!(nodes, [(0, 2), (1, 2), (2, 0)]);
    }

    #[test]
    fn set_of_this_thread_is_not_empty() {
        let processors = Processors::for_memory(std::iter::empty(), false);
        assert!(processors.count() >= 1);
        assert!(!must_end(held_signals()));
    }

    #[test]
    fn fatal_signal_ends_the_work_unless_it_was_already_blocked() {
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let before = held_signals();
        // SAFETY: the set belongs to this function; the signals go to this thread alone, which
        // blocks them.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let signals = [libc::SIGTERM, libc::SIGWINCH, libc::SIGRTMIN() + 3];
            for signal in signals {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            let raise = |signal| libc::pthread_kill(libc::pthread_self(), signal);
            raise(libc::SIGWINCH);
            assert!(!must_end(before));
            for signal in [libc::SIGTERM, libc::SIGRTMIN() + 3] {
                raise(signal);
                assert!(must_end(before), "{signal}");
                assert!(!must_end(before | bit(signal)), "{signal}");
                let zero = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                let mut one: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&mut one, signal);
                assert_eq!(
                    libc::sigtimedwait(&one, std::ptr::null_mut(), &zero),
                    signal
                );
                assert!(!must_end(before));
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        }
    }
}
