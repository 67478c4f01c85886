//! How long SMT off takes with each strategy.

use serde::Serialize;

use super::strategy::{Kernel, KernelName, Rcu, STRATEGIES};
use super::{Costs, Moments, Simulation};

/// The word for the newest kernel, that is beside all others.
pub(super) const NEWEST: &str = "newest (6.16)";

/// The sizes of machines that costs are known of: fewest and most CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// Fewest CPUs.
    pub fewest: usize,
    /// Most.
    pub most: usize,
}

impl Known {
    /// Whether a machine of so many CPUs is outside.
    pub fn is_extrapolated(&self, cpus: usize) -> bool {
        !(self.fewest..=self.most).contains(&cpus)
    }
}

/// Everything about one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The kernel that all is held against.
    pub against: KernelName,
    /// Its time, in seconds, if nobody does anything about it.
    pub as_it_is: f64,
    /// Of which sizes of machines costs are known.
    pub known: Known,
    /// Whether this machine is smaller or larger than those.
    pub extrapolated: bool,
    /// Each strategy, with RCU as it is and expedited.
    pub rows: Vec<Row>,
}

/// A strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// A word for it.
    pub strategy: &'static str,
    /// What it is.
    pub what: String,
    /// The kernel, and how CPUs are taken offline there.
    pub kernel: Kernel,
    /// What it takes.
    #[serde(flatten)]
    pub simulation: Simulation,
    /// What most of the time goes to.
    pub largest: &'static str,
    /// How many times faster than that kernel as it is.
    pub speedup: f64,
    /// Whether the machine is smaller or larger than what costs are known of.
    pub extrapolated: bool,
}

/// All strategies on one machine, with that kernel's check of spans, and at last with the newest one.
pub fn answer(moments: &Moments, against: KernelName, costs: &Costs, known: Known) -> Answer {
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
    fn the_kernel_itself_is_as_fast_as_itself_and_small_machines_are_marked() {
        let topology = Topology::from_text("sockets=2 cores=2 threads=4").unwrap();
        let moments = Moments::new(&topology, &Rules::LINUX_6_1, Order::ByCore, 4);
        let known = Known {
            fewest: KNOWN_CPUS.0,
            most: KNOWN_CPUS.1,
        };
        let answer = answer(&moments, KernelName::Linux6_1, &Costs::POWER10, known);
        assert_eq!(answer.rows.len(), 15);
        assert!((answer.rows[0].speedup - 1.0).abs() < 1e-9);
        assert!(answer.rows.iter().all(|row| row.extrapolated));
        // Grace periods are all of it where there are few CPUs.
        assert_eq!(answer.rows[3].largest, "RCU");
        assert!(answer.rows[14].speedup > 10.0);
    }
}
