//! What was published of a machine with 1920 CPUs, and what the model says of it.
//!
//! "sched/debug: CPU hotplug operation suffers in a large cpu systems", linux-kernel, 17 October
//! 2022: POWER10, 15 sockets of 16 cores with 8 threads; `ppc64_cpu --smt=off` takes 1680 CPUs offline.

use serde::Serialize;

use super::strategy::{Export, Kernel, KernelName};
use super::{Costs, Moments, Order};
use crate::build::{Architecture, Rules};
use crate::topology::Topology;

/// How much slower functions are under the function-graph tracer, by which the published times of
/// functions were taken: stated, chosen so that times of functions and of whole operations agree.
pub const TRACING: f64 = 1.475;

/// That machine.
pub const MACHINE: &str = "sockets=15 cores=16 threads=8 far=40";

/// CPUs of the smallest and the largest machine that times were published of: outside of them the
/// model extrapolates.
pub const KNOWN_CPUS: (usize, usize) = (240, 1920);

/// Seconds of `ppc64_cpu --smt=off` there, by kernels.
pub const WHOLE_TIMES: [(&str, f64); 4] = [
    ("5.11 (sysctl)", 29.0 * 60.0 + 22.007),
    ("5.14 (debugfs)", 58.0 * 60.0 + 15.719),
    ("6.0-rc4 (debugfs)", 59.0 * 60.0 + 30.318),
    ("6.0-rc4, sysctl again", 32.0 * 60.0 + 20.486),
];

/// A published number beside the model's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The table.
    pub table: &'static str,
    /// The row.
    pub what: &'static str,
    /// Seconds that were published.
    pub published: f64,
    /// Seconds by the model.
    pub model: f64,
}

impl Published {
    /// How far the model is off: 0.1 for 10 per cent too long.
    pub fn error(&self) -> f64 {
        self.model / self.published - 1.0
    }
}

/// The published tables. Models of `samples` moments each.
pub fn history(costs: &Costs, samples: usize) -> Vec<Published> {
    let rules = Rules {
        architecture: Architecture::Power,
        ..Rules::LINUX_6_1
    };
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
    // The functions alone. 240 CPUs are an eighth of the large machine's.
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
    fn the_published_tables_come_out_within_15_per_cent() {
        let rows = history(&Costs::POWER10, 12);
        assert_eq!(rows.len(), 13);
        for row in &rows {
            assert!(row.error().abs() < 0.15, "{row:?}: {:.3}", row.error());
        }
    }
}
