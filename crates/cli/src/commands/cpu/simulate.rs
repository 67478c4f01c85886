//! `bigiron cpu simulate`.

use std::fmt::Write as _;

use bigiron_cpu::simulate::{
    Costs, Export, Kernel, Order, Published, Rcu, Simulation, SpanCheck, TRACING, history, simulate,
};
use bigiron_cpu::topology::Topology;
use clap::Args;
use serde::Serialize;

use super::domains::{ArchitectureName, KernelName, rules};
use crate::tell::print;

/// States of a machine for which domains are built: more of them change little.
const SAMPLES: usize = 8;
/// CPUs at once where the kernel would rebuild for several together.
const BATCH: u32 = 64;
/// The largest machine of the published tables: what is beyond it is extrapolated.
const KNOWN_CPUS: usize = 1920;

/// `bigiron cpu simulate`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct SimulateArguments {
    /// The machine by words, as for `bigiron cpu domains --machine`
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "sockets=15 cores=16 threads=8 far=40"
    )]
    machine: String,
    /// Whose levels it has
    #[arg(long, value_enum, default_value = "power")]
    arch: ArchitectureName,
    /// Hold the model against what was published of a machine with 1920 CPUs
    #[arg(long)]
    history: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
How long it takes to leave one hardware thread in each core, by ways to show the scheduler domains to user space and \
by RCU's pace. Costs of basic operations are those of a POWER10 of 2022; what they are is in the JSON.

Examples:
  bigiron cpu simulate
  bigiron cpu simulate --history
  bigiron cpu simulate --machine 'sockets=64 cores=16 threads=8 far=40'";

/// Everything, for programs.
#[derive(Serialize)]
struct Answer {
    machine: String,
    costs: Costs,
    tracing: f64,
    extrapolated: bool,
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Published>,
}

#[derive(Serialize)]
struct Row {
    what: String,
    kernel: Kernel,
    #[serde(flatten)]
    simulation: Simulation,
}

/// Runs the model and prints what it says.
pub fn run(arguments: &SimulateArguments) -> anyhow::Result<()> {
    let costs = Costs::POWER10;
    let topology = Topology::from_text(&arguments.machine)?;
    let rules = rules(KernelName::Linux6_1, arguments.arch);
    let rows = kernels()
        .into_iter()
        .map(|(what, kernel)| Row {
            what,
            kernel,
            simulation: simulate(&topology, &rules, kernel, &costs, Order::ByCore, SAMPLES),
        })
        .collect();
    let answer = Answer {
        machine: arguments.machine.clone(),
        costs,
        tracing: TRACING,
        extrapolated: topology.cpu_count() > KNOWN_CPUS,
        rows,
        history: match arguments.history {
            true => history(&costs, SAMPLES),
            false => Vec::new(),
        },
    };
    match arguments.json {
        true => print(&(serde_json::to_string(&answer)? + "\n")),
        false => print(&text(&answer)),
    }
}

/// The strategies, each with RCU as it is and expedited; then with the check of spans as it is now.
fn kernels() -> Vec<(String, Kernel)> {
    let exports = [
        ("debugfs (5.13 to 6.3)", Export::Debugfs),
        ("sysctl (until 5.12)", Export::Sysctl),
        ("debugfs, what changed", Export::Incremental),
        ("debugfs, once for 64", Export::Batched(BATCH)),
        ("none (verbose off)", Export::Off),
        ("when looked at", Export::Lazy),
    ];
    let mut kernels = Vec::new();
    for (pace, rcu) in [("", Rcu::Normal), (", RCU expedited", Rcu::Expedited)] {
        for (name, export) in exports {
            let kernel = Kernel {
                span_check: SpanCheck::Pairs,
                export,
                rcu,
            };
            kernels.push((format!("{name}{pace}"), kernel));
        }
    }
    let newest = Kernel {
        span_check: SpanCheck::Once,
        export: Export::Lazy,
        rcu: Rcu::Expedited,
    };
    kernels.push(("the same, spans checked once (6.14)".into(), newest));
    kernels
}

fn text(answer: &Answer) -> String {
    let mut out = String::new();
    let Some(first) = answer.rows.first() else {
        return out;
    };
    let _ = writeln!(
        out,
        "A model: {} of {} CPUs go off line{}",
        first.simulation.offlined,
        first.simulation.cpus,
        match answer.extrapolated {
            true => "; more CPUs than any published table: extrapolated",
            false => "",
        }
    );
    let _ = writeln!(
        out,
        "{:<38} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "domains are shown by", "all", "hotplug", "RCU", "build", "check", "show"
    );
    for row in &answer.rows {
        let total = &row.simulation.total;
        let _ = writeln!(
            out,
            "{:<38} {:>9} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>8.0}",
            row.what,
            duration(total.total()),
            total.hotplug,
            total.rcu,
            total.build,
            total.span_check,
            total.export
        );
    }
    let _ = writeln!(out, "seconds; `all` in minutes and seconds");
    let mut table = "";
    for row in &answer.history {
        if row.table != table {
            table = row.table;
            let _ = writeln!(
                out,
                "\n{table:<44} {:>11} {:>11} {:>7}",
                "published", "model", "error"
            );
        }
        let _ = writeln!(
            out,
            "  {:<42} {:>9.3} s {:>9.3} s {:>+6.1}%",
            row.what,
            row.published,
            row.model,
            row.error() * 100.0
        );
    }
    out
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}m{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_has_a_row_and_the_rarer_export_is_never_dearer() {
        let topology = Topology::from_text("sockets=2 cores=4 threads=4").unwrap();
        let rules = rules(KernelName::Linux6_1, ArchitectureName::Power);
        let totals: Vec<f64> = kernels()
            .into_iter()
            .map(|(_, kernel)| {
                simulate(
                    &topology,
                    &rules,
                    kernel,
                    &Costs::POWER10,
                    Order::ByThread,
                    SAMPLES,
                )
                .total
                .total()
            })
            .collect();
        let [debugfs, _, incremental, batched, off, lazy, ..] = totals[..] else {
            panic!("{totals:?}");
        };
        assert!(debugfs > incremental && debugfs > batched);
        assert!(lazy >= off && lazy < off * 1.001);
    }
}
