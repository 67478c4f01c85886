//! Published times of a machine with 1920 CPUs, compared with the model.
//!
//! "sched/debug: CPU hotplug operation suffers in a large cpu systems", linux-kernel, 17
//! October 2022: POWER10, 15 sockets of 16 cores with 8 threads; `ppc64_cpu --smt=off` takes
//! 1680 CPUs offline.

use serde::Serialize;

use super::costs::TRACING;
use super::strategy::{Export, Kernel, KernelName};
use super::{Costs, Moments, Order};
use crate::build::{Architecture, Rules};
use crate::topology::Topology;

/// Description of that machine.
pub const MACHINE: &str = "sockets=15 cores=16 threads=8 far=40";

/// CPUs of the smallest and the largest machine with published times. The model extrapolates
/// outside this range.
pub const KNOWN_CPUS: (usize, usize) = (240, 1920);

/// Published times of `ppc64_cpu --smt=off` on that machine, in seconds, by kernel.
pub const WHOLE_TIMES: [(&str, f64); 4] = [
    ("5.11 (sysctl)", 29.0 * 60.0 + 22.007),
    ("5.14 (debugfs)", 58.0 * 60.0 + 15.719),
    ("6.0-rc4 (debugfs)", 59.0 * 60.0 + 30.318),
    ("6.0-rc4, sysctl again", 32.0 * 60.0 + 20.486),
];

/// A published time, and the model's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Title of the table.
    pub table: &'static str,
    /// Label of the row.
    pub what: &'static str,
    /// Published time, in seconds.
    pub published: f64,
    /// Time of the model, in seconds.
    pub model: f64,
}

impl Published {
    /// Returns the relative error of the model: 0.1 if it is 10 per cent too long.
    pub fn error(&self) -> f64 {
        self.model / self.published - 1.0
    }
}

/// Returns the published tables, with models of `samples` samples each.
pub fn history(costs: &Costs, samples: usize) -> Vec<Published> {
    let rules = Rules::LINUX_6_1.on(Architecture::Power);
    let Ok(machine) = Topology::from_text(MACHINE) else {
        return Vec::new();
    };
    let moments = Moments::new(&machine, &rules, Order::ByCore, samples);
    let run = |export| {
        let kernel = Kernel {
            export,
            ..KernelName::Linux6_1.kernel()
        };
        moments.run(kernel, costs)
    };
    let (sysctl, debugfs) = (run(Export::Sysctl), run(Export::Debugfs));
    let row = |table, what, published, model| Published {
        table,
        what,
        published,
        model,
    };
    const WHOLE: &str = "smt=off, 1920 CPUs";
    const ONE: &str = "one CPU of 1920, traced";
    const SMALL: &str = "export, 240 CPUs";
    let traced = |seconds: f64| seconds * TRACING;
    let built =
        |simulation: &super::Simulation| simulation.first.build + simulation.first.span_check;
    let whole = [&sysctl, &debugfs, &debugfs, &sysctl];
    let mut rows: Vec<Published> = WHOLE_TIMES
        .iter()
        .zip(whole)
        .map(|((what, seconds), run)| row(WHOLE, *what, *seconds, run.total.total()))
        .collect();
    rows.extend([
        row(
            ONE,
            "build_sched_domains (sysctl)",
            3.090_563,
            traced(built(&sysctl)),
        ),
        row(
            ONE,
            "build_sched_domains (debugfs)",
            3.119_130,
            traced(built(&debugfs)),
        ),
        row(
            ONE,
            "unregister_sysctl_table",
            0.020_050,
            traced(1920.0 * costs.sysctl_remove),
        ),
        row(
            ONE,
            "register_sched_domain_sysctl",
            0.065_487,
            traced(costs.sysctl_register(1919.0)),
        ),
        row(
            ONE,
            "update_sched_domain_debugfs",
            2.791_232,
            traced(debugfs.first.export),
        ),
    ]);
    for (what, published, simulation) in [
        (
            "partition_sched_domains_locked (sysctl)",
            3.195_958,
            &sysctl,
        ),
        (
            "partition_sched_domains_locked (debugfs)",
            5.933_254,
            &debugfs,
        ),
    ] {
        let model = traced(built(simulation) + simulation.first.export);
        rows.push(row(ONE, what, published, model));
    }
    // The export functions alone: 240 CPUs are an eighth of the large machine.
    let debugfs = debugfs.first.export / 8.0;
    rows.push(row(
        SMALL,
        "update_sched_domain_debugfs",
        0.236_551,
        debugfs,
    ));
    let sysctl = costs.sysctl_register(240.0);
    rows.push(row(
        SMALL,
        "register_sched_domain_sysctl",
        0.013_908,
        sysctl,
    ));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_within_15_per_cent_of_the_published_times() {
        let rows = history(&Costs::POWER10, 12);
        assert_eq!(rows.len(), 13);
        for row in &rows {
            assert!(row.error().abs() < 0.15, "{row:?}: {:.3}", row.error());
        }
    }
}
