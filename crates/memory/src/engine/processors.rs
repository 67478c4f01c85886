//! Which processors helpers run on.

use std::sync::OnceLock;

use bigiron_helpers::{MAX_BARE_THREADS, ThreadId};

use crate::region::Region;

/// Processors that a mask has room for: what NR_CPUS may be at most on any architecture.
const MAX_PROCESSORS: usize = 8192;
/// Nodes likewise (CONFIG_NODES_SHIFT is at most 10).
const MAX_NODES: usize = 1024;
const WORD: usize = u64::BITS as usize;
const MASK: usize = MAX_PROCESSORS / WORD;

/// A set of processors, as `sched_setaffinity` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mask([u64; MASK]);

impl Mask {
    const NONE: Self = Self([0; MASK]);

    fn insert(&mut self, processor: usize) {
        if let Some(word) = self.0.get_mut(processor / WORD) {
            *word |= 1 << (processor % WORD);
        }
    }

    /// Takes out what is not in `other`.
    fn keep(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    /// Adds what is in both others.
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

    /// Becomes those of the calling thread; none if the kernel does not say.
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

/// What does not change while a program runs.
struct Facts {
    /// Processor time that the control group allows, in whole processors.
    quota: usize,
    /// The processors of each node; empty where there is one node.
    nodes: Vec<(usize, Mask)>,
}

static FACTS: OnceLock<Facts> = OnceLock::new();

/// Reads what is asked of the system once: nodes, and the control group's quota.
/// Allocates, so it is called before the first operation of an allocator, if at
/// all: without it the machine is taken for one of one node.
pub fn prepare() {
    // Found out at the first use, for which rustix may open a file, and allocate.
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

/// Whether the kernel says so in one short file, as on most machines.
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

/// A list such as `0-3,8`; empty for a node without processors.
fn parse_list(list: &str) -> Option<Mask> {
    let mut mask = Mask::NONE;
    for range in list.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first..=last.min(MAX_PROCESSORS)).for_each(|processor| mask.insert(processor));
    }
    Some(mask)
}

/// The processors for one operation: those that this thread may use, by the nodes
/// that its memory is to come from.
pub struct Processors {
    all: Mask,
    quota: usize,
    /// Indexes into the nodes of [`Facts`]; helpers go round them.
    nodes: [u16; MAX_BARE_THREADS],
    node_count: usize,
}

impl Processors {
    /// For memory of `regions`. A policy of the memory or of the thread decides on which
    /// nodes it is made, and helpers run there. Without one it is made where it is first
    /// touched: so they stay on this thread's node, where the plain call would have
    /// put it; or with `spread` run on all.
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

    /// How many helpers can work at the same time.
    pub fn count(&self) -> usize {
        self.all.count().clamp(1, self.quota.max(1))
    }

    /// Binds a helper to the processors of its node, where the machine has several. The
    /// scheduler chooses among them: a helper bound to one would wait behind whoever runs there.
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
        // SAFETY: the kernel reads the mask. Where it refuses, the helper runs where this thread may.
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

/// Adds the nodes from which the policy of a region takes memory; none for the
/// policy to take it where it is touched. See get_mempolicy(2).
fn add_policy(region: Region, nodes: &mut [u64; MAX_NODES / WORD]) {
    /// The policy of an address, not of the thread.
    const MPOL_F_ADDR: usize = 2;
    const MPOL_LOCAL: i32 = 4;
    let mut mode = 0_i32;
    let mut named = [0_u64; MAX_NODES / WORD];
    // SAFETY: the kernel writes a mode and at most this many nodes. It takes the
    // thread's policy where the region has none (do_get_mempolicy of mm/mempolicy.c).
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

/// The node of the processor that this thread runs on.
fn current_node() -> Option<usize> {
    let (mut processor, mut node) = (0_u32, 0_u32);
    // SAFETY: the kernel writes two numbers.
    let status = unsafe { libc::syscall(libc::SYS_getcpu, &mut processor, &mut node, 0) };
    (status == 0).then_some(node as usize)
}

/// Whether a signal waits that ends the program: it must not wait for gigabytes.
/// Signals with a handler wait, as they do for a system call; so do those that the program
/// itself held back before, `blocked`.
pub(super) fn must_end(blocked: u64) -> bool {
    /// What ends nothing by itself: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
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
    // SAFETY: the kernel writes a number of the size that it is told.
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
        // SAFETY: an action of zeros is valid, and the call fills what it is given.
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
    fn lists_of_processors() {
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
    fn this_thread_may_run_somewhere() {
        let processors = Processors::for_memory(std::iter::empty(), false);
        assert!(processors.count() >= 1);
        assert!(!must_end(held_signals()));
    }

    #[test]
    fn a_signal_that_ends_the_program_ends_the_work_unless_it_was_held_back_before() {
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let before = held_signals();
        // SAFETY: the set is this function's; the signals go to this thread alone, which holds them back.
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
