//! CPUs going off line one after the other.

use serde::Serialize;

use super::Costs;
use crate::build::{Rules, build};
use crate::domains::SchedDomain;
use crate::list::CpuList;
use crate::topology::Topology;

/// Files of a domain: name, flags, groups_flags, level, five tunables, max_newidle_lb_cost.
const FILES: f64 = 10.0;

/// How a kernel checks that levels do not overlap in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpanCheck {
    /// Each CPU with each other, before 6.14.
    Pairs,
    /// Each CPU once (f55dac1dafb3, ce29a7da84cd).
    Once,
}

/// How domains are shown to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    /// Not at all: since 6.4, unless sched/verbose is on.
    Off,
    /// All files of all CPUs in debugfs, made anew each time: 5.13 to 6.3.
    Debugfs,
    /// The same under /proc/sys: until 5.12.
    Sysctl,
    /// debugfs, but only the CPUs whose domains changed in kind.
    Incremental,
    /// debugfs, once for so many CPUs.
    Batched(u32),
    /// Made when somebody looks: a number says that all has changed.
    Lazy,
}

/// Whether somebody has RCU hurry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rcu {
    /// Nobody.
    Normal,
    /// /sys/kernel/rcu_expedited.
    Expedited,
}

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// How levels are checked.
    pub span_check: SpanCheck,
    /// How domains are shown.
    pub export: Export,
    /// Whether RCU hurries.
    pub rcu: Rcu,
}

/// In which order CPUs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All threads of a core but the first, core by core.
    ByCore,
    /// The last thread of each core, then the one before.
    ByThread,
}

/// Seconds by what they go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Terms {
    /// Taking CPUs down.
    pub hotplug: f64,
    /// Waiting for RCU.
    pub rcu: f64,
    /// Building domains.
    pub build: f64,
    /// Checking spans; the kernel does it within build_sched_domains.
    pub span_check: f64,
    /// Showing domains.
    pub export: f64,
}

impl Terms {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.hotplug + self.rcu + self.build + self.span_check + self.export
    }

    fn add(&mut self, other: &Self, times: f64) {
        self.hotplug += other.hotplug * times;
        self.rcu += other.rcu * times;
        self.build += other.build * times;
        self.span_check += other.span_check * times;
        self.export += other.export * times;
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulation {
    /// CPUs at the beginning.
    pub cpus: usize,
    /// CPUs that went.
    pub offlined: usize,
    /// All seconds.
    pub total: Terms,
    /// Those of the first CPU that went, when all others were there.
    pub first: Terms,
    /// Those of the last.
    pub last: Terms,
}

/// Takes all hardware threads but the first of each core off line.
///
/// Domains are built for at most `samples` moments: each stands for as many CPUs before as after it.
pub fn simulate(
    topology: &Topology,
    rules: &Rules,
    kernel: Kernel,
    costs: &Costs,
    order: Order,
    samples: usize,
) -> Simulation {
    let going = order_of(topology, order);
    // The CPU at a place in the order goes, when those before it have gone.
    let step = |place: usize| {
        let mut online: Vec<bool> = vec![true; topology.cpu_count()];
        let mut go = |cpus: &[usize]| {
            for cpu in cpus {
                if let Some(cpu) = online.get_mut(*cpu) {
                    *cpu = false;
                }
            }
            state(topology, rules, &online)
        };
        let before = go(going.get(..place).unwrap_or_default());
        let after = go(going.get(place..=place).unwrap_or_default());
        step_terms(&before, &after, kernel, costs)
    };
    let mut total = Terms::default();
    let width = going.len().div_ceil(samples.max(1)).max(1);
    for start in (0..going.len()).step_by(width) {
        let end = (start + width).min(going.len());
        total.add(&step(start.midpoint(end)), (end - start) as f64);
    }
    let at = |place: Option<usize>| place.map(step).unwrap_or_default();
    Simulation {
        cpus: topology.cpu_count(),
        offlined: going.len(),
        total,
        first: at((!going.is_empty()).then_some(0)),
        last: at(going.len().checked_sub(1)),
    }
}

/// The CPUs that go, in order.
fn order_of(topology: &Topology, order: Order) -> Vec<usize> {
    let cores = || (0..topology.cores.count()).filter_map(|core| topology.cores.members(core));
    match order {
        Order::ByCore => cores().flat_map(|core| core.ones().skip(1)).collect(),
        Order::ByThread => {
            let threads = cores().map(|core| core.count_ones(..)).max().unwrap_or(0);
            let of = |thread: usize| cores().filter_map(move |core| core.ones().nth(thread));
            (1..threads).rev().flat_map(of).collect()
        }
    }
}

/// What costs depend on.
struct State {
    cpus: usize,
    /// Words of a mask: as many as the machine's CPUs need, on line or not.
    words: usize,
    /// Levels that are built, degenerate ones too, and those of them that are checked.
    built: usize,
    checked: usize,
    chains: Vec<Vec<SchedDomain>>,
}

fn state(topology: &Topology, rules: &Rules, online: &[bool]) -> State {
    let list: CpuList = (0_u32..)
        .zip(online)
        .filter_map(|(cpu, online)| online.then_some(cpu))
        .collect();
    let levels = rules.level_counts(topology, &list);
    State {
        cpus: list.len(),
        words: topology.cpu_count().div_ceil(64),
        built: levels.0,
        checked: levels.1,
        chains: build(topology, &list, rules),
    }
}

fn step_terms(before: &State, after: &State, kernel: Kernel, costs: &Costs) -> Terms {
    let cpus = after.cpus as f64;
    let domains = |state: &State| state.chains.iter().map(Vec::len).sum::<usize>() as f64;
    // What was there is removed, what is there now is made.
    let debugfs = |cpus: f64, domains: f64| {
        cpus * (costs.debugfs_remove + costs.debugfs_directory)
            + domains * (costs.debugfs_directory + FILES * costs.debugfs_file)
    };
    Terms {
        hotplug: costs.hotplug,
        rcu: match kernel.rcu {
            Rcu::Normal => costs.rcu_normal,
            Rcu::Expedited => costs.rcu_expedited,
        },
        build: cpus * after.built as f64 * after.words as f64 * costs.domain_word,
        span_check: match kernel.span_check {
            SpanCheck::Pairs => cpus * cpus * after.checked as f64 * costs.span_pair,
            SpanCheck::Once => cpus * after.checked as f64 * costs.span_pair,
        },
        export: match kernel.export {
            Export::Off => 0.0,
            Export::Debugfs => debugfs(cpus, domains(after)),
            Export::Sysctl => costs.sysctl_register(cpus) + cpus * costs.sysctl_remove,
            Export::Incremental => {
                let (changed, domains) = changed(before, after);
                debugfs(changed as f64, domains as f64)
            }
            Export::Batched(cpus_at_once) => {
                debugfs(cpus, domains(after)) / f64::from(cpus_at_once.max(1))
            }
            Export::Lazy => costs.generation,
        },
    }
}

/// CPUs whose chain has other levels or flags than before, and their domains now. Spans and
/// intervals are read from memory whenever somebody looks.
fn changed(before: &State, after: &State) -> (usize, usize) {
    let kind = |chain: &[SchedDomain]| -> Vec<_> {
        let kinds = chain.iter();
        kinds
            .map(|domain| {
                (
                    domain.level,
                    domain.flags.clone(),
                    domain.groups_flags.clone(),
                )
            })
            .collect()
    };
    let pairs = before.chains.iter().zip(&after.chains);
    pairs
        .filter(|(old, new)| old.len() != new.len() || kind(old) != kind(new))
        .fold((0, 0), |(cpus, domains), (_, new)| {
            (cpus + 1, domains + new.len())
        })
}
