//! CPUs going offline one after another.

use serde::Serialize;

use super::strategy::Kernel;
use super::terms::{Rebuild, Terms, down};
use super::{Costs, Work};
use crate::build::{Rules, work};
use crate::list::CpuList;
use crate::topology::Topology;

/// Order in which CPUs go offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All threads of a core but the first, core by core.
    ByCore,
    /// The last thread of each core, then the one before it.
    ByThread,
}

/// Result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulation {
    /// Number of CPUs at the start.
    pub cpus: usize,
    /// Number of CPUs taken offline.
    pub offlined: usize,
    /// Number of domain rebuilds.
    pub rebuilds: usize,
    /// Times for all CPUs, in seconds.
    pub total: Terms,
    /// Times for the first CPU, while all others are online.
    pub first: Terms,
    /// Times for the last CPU.
    pub last: Terms,
}

/// States of a machine while all hardware threads but the first of each core are taken offline,
/// and the rebuild in each state. Kernel and costs are chosen later.
#[derive(Clone, Debug)]
pub struct Moments {
    cpus: usize,
    offlined: usize,
    /// Rebuilds, each with the number of CPUs that it represents.
    samples: Vec<(f64, Rebuild)>,
    first: Rebuild,
    last: Rebuild,
    /// Rebuilds for removing all CPUs at once, and for the remaining CPUs once more.
    at_once: [Rebuild; 2],
}

impl Moments {
    /// Builds domains for at most `samples` states, and for the first and last ones; each
    /// sample represents as many CPUs before as after it.
    pub fn new(topology: &Topology, rules: &Rules, order: Order, samples: usize) -> Self {
        let going = order_of(topology, order);
        let state = |gone: usize| -> Work {
            let mut online = vec![true; topology.cpu_count()];
            for cpu in going.iter().take(gone) {
                if let Some(cpu) = online.get_mut(*cpu) {
                    *cpu = false;
                }
            }
            let cpus = (0_u32..).zip(online);
            let list: CpuList = cpus
                .filter_map(|(cpu, is_on)| is_on.then_some(cpu))
                .collect();
            work(topology, &list, rules)
        };
        // The CPU at `index` goes offline after those before it.
        let step = |index: usize| Rebuild::new(&state(index), &state(index + 1));
        let width = going.len().div_ceil(samples.max(1)).max(1);
        let starts = (0..going.len()).step_by(width);
        let samples = starts.map(|start| {
            let end = (start + width).min(going.len());
            ((end - start) as f64, step(start.midpoint(end)))
        });
        let samples = samples.collect();
        let (all, left) = (state(0), state(going.len()));
        let at = |index: Option<usize>| index.map(step).unwrap_or_default();
        Self {
            cpus: topology.cpu_count(),
            offlined: going.len(),
            samples,
            first: at((!going.is_empty()).then_some(0)),
            last: at(going.len().checked_sub(1)),
            at_once: [Rebuild::new(&all, &left), Rebuild::new(&left, &left)],
        }
    }

    /// Returns the times with a kernel and costs.
    pub fn run(&self, kernel: Kernel, costs: &Costs) -> Simulation {
        let down = down(kernel, costs);
        let mut total = Terms::default();
        total.add(&down, self.offlined as f64);
        let rebuilt = |rebuild: &Rebuild| {
            let mut terms = down;
            if !kernel.batched {
                terms.add(&rebuild.terms(kernel, costs), 1.0);
            }
            terms
        };
        if kernel.batched && self.offlined > 0 {
            for rebuild in &self.at_once {
                total.add(&rebuild.terms(kernel, costs), 1.0);
            }
        } else {
            for (times, rebuild) in &self.samples {
                total.add(&rebuild.terms(kernel, costs), *times);
            }
        }
        let one = |rebuild| match self.offlined {
            0 => Terms::default(),
            _ => rebuilt(rebuild),
        };
        Simulation {
            cpus: self.cpus,
            offlined: self.offlined,
            rebuilds: match (kernel.batched, self.offlined) {
                (_, 0) => 0,
                (true, _) => self.at_once.len(),
                (false, offlined) => offlined,
            },
            total,
            first: one(&self.first),
            last: one(&self.last),
        }
    }
}

/// Returns the CPUs to take offline, in order.
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

#[cfg(test)]
mod tests {
    use super::super::strategy::{Export, KernelName, Rcu};
    use super::*;

    fn moments(machine: &str) -> Moments {
        let topology = Topology::from_text(machine).unwrap();
        Moments::new(&topology, &Rules::LINUX_6_1, Order::ByThread, 100)
    }

    #[test]
    fn less_export_and_faster_rcu_reduce_the_time() {
        let moments = moments("sockets=2 cores=4 threads=4");
        let base = KernelName::Linux6_1.kernel();
        let total = |export, batched, rcu| {
            let kernel = Kernel {
                export,
                batched,
                rcu,
                ..base
            };
            moments.run(kernel, &Costs::POWER10).total.total()
        };
        let normal = |export| total(export, false, Rcu::Normal);
        assert!(normal(Export::Debugfs) > normal(Export::Incremental));
        assert!(normal(Export::Incremental) > normal(Export::Off));
        assert!(normal(Export::Lazy) < normal(Export::Off) * 1.001);
        assert!(total(Export::Off, true, Rcu::Normal) < normal(Export::Off));
        assert!(total(Export::Off, false, Rcu::Expedited) < normal(Export::Off));
    }

    #[test]
    fn isolating_cpus_first_costs_two_rebuilds_and_the_rest_per_cpu() {
        let moments = moments("sockets=2 cores=4 threads=4");
        let kernel = Kernel {
            batched: true,
            ..KernelName::Linux6_1.kernel()
        };
        let simulation = moments.run(kernel, &Costs::POWER10);
        assert_eq!((simulation.offlined, simulation.rebuilds), (24, 2));
        let costs = Costs::POWER10;
        assert!((simulation.total.hotplug - 24.0 * costs.hotplug).abs() < 1e-9);
        assert!((simulation.total.rcu - 48.0 * costs.grace_period).abs() < 1e-9);
        assert_eq!(simulation.first.build, 0.0);
        // Eight CPUs remain: less than twice the cost of building for all 32.
        let whole = moments.run(KernelName::Linux6_1.kernel(), &costs).first;
        assert!(simulation.total.build > 0.0 && simulation.total.build < 2.0 * whole.build);
    }

    #[test]
    fn no_cpu_goes_offline_without_smt() {
        let simulation = moments("cores=4").run(KernelName::Linux6_1.kernel(), &Costs::POWER10);
        assert_eq!((simulation.offlined, simulation.total.total()), (0, 0.0));
    }
}
