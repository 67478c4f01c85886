//! Duration of SMT off with each strategy.

use serde::Serialize;

use super::strategy::{Kernel, KernelName, Rcu, STRATEGIES};
use super::{Costs, Moments, Simulation};

/// Strategy name of the newest kernel, which is listed after all others.
pub(super) const NEWEST: &str = "newest (6.16)";

/// Range of machine sizes for which costs are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KnownSizes {
    /// Smallest number of CPUs.
    pub fewest: usize,
    /// Largest number of CPUs.
    pub most: usize,
}

impl KnownSizes {
    /// Returns true if a machine with `cpus` CPUs is outside the range.
    pub fn is_extrapolated(&self, cpus: usize) -> bool {
        !(self.fewest..=self.most).contains(&cpus)
    }
}

/// Results for one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Baseline kernel of the comparison.
    pub against: KernelName,
    /// Time of the baseline with its defaults, in seconds.
    pub as_it_is: f64,
    /// Machine sizes for which costs are known.
    pub known: KnownSizes,
    /// True if the machine is outside that range.
    pub extrapolated: bool,
    /// Each strategy, with normal and with expedited RCU.
    pub rows: Vec<Row>,
}

/// Result of a strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the strategy.
    pub strategy: &'static str,
    /// Description of the strategy.
    pub what: String,
    /// Kernel, and the method of taking CPUs offline.
    pub kernel: Kernel,
    /// Simulated times.
    #[serde(flatten)]
    pub simulation: Simulation,
    /// Name of the category with the largest time.
    pub largest: &'static str,
    /// Speedup relative to the baseline with its defaults.
    pub speedup: f64,
    /// True if the machine is outside the range for which costs are known.
    pub extrapolated: bool,
}

/// Computes all strategies on one machine, with the span check of the baseline, and finally the
/// newest kernel.
pub fn answer(moments: &Moments, against: KernelName, costs: &Costs, known: KnownSizes) -> Answer {
    let base = against.kernel();
    let as_it_is = moments.run(base, costs);
    let extrapolated = known.is_extrapolated(as_it_is.cpus);
    let row = |strategy, what, kernel| {
        let simulation = moments.run(kernel, costs);
        let total = simulation.total.total();
        Row {
            strategy,
            what,
            kernel,
            largest: simulation.total.largest(),
            speedup: match total > 0.0 {
                true => as_it_is.total.total() / total,
                false => 1.0,
            },
            simulation,
            extrapolated,
        }
    };
    let mut rows = Vec::new();
    for (rcu, name) in [(Rcu::Normal, ""), (Rcu::Expedited, ", RCU expedited")] {
        rows.extend(STRATEGIES.iter().map(|strategy| {
            let kernel = Kernel {
                span_check: base.span_check,
                export: strategy.export,
                rcu,
                batched: strategy.batched,
            };
            row(strategy.key, format!("{}{name}", strategy.what), kernel)
        }));
    }
    let newest = Kernel {
        rcu: Rcu::Expedited,
        ..KernelName::Linux6_16.kernel()
    };
    rows.push(row(NEWEST, "none (6.16), RCU expedited".into(), newest));
    Answer {
        against,
        as_it_is: as_it_is.total.total(),
        known,
        extrapolated,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KNOWN_CPUS, Order};
    use super::*;
    use crate::build::Rules;
    use crate::topology::Topology;

    #[test]
    fn baseline_has_speedup_one_and_small_machines_are_marked() {
        let topology = Topology::from_text("sockets=2 cores=2 threads=4").unwrap();
        let moments = Moments::new(&topology, &Rules::LINUX_6_1, Order::ByCore, 4);
        let known = KnownSizes {
            fewest: KNOWN_CPUS.0,
            most: KNOWN_CPUS.1,
        };
        let answer = answer(&moments, KernelName::Linux6_1, &Costs::POWER10, known);
        assert_eq!(answer.rows.len(), 15);
        assert!((answer.rows[0].speedup - 1.0).abs() < 1e-9);
        assert!(answer.rows.iter().all(|row| row.extrapolated));
        // With few CPUs, grace periods dominate.
        assert_eq!(answer.rows[3].largest, "RCU");
        assert!(answer.rows[14].speedup > 10.0);
    }
}
