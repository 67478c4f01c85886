//! `bigiron cpu simulate`.

mod results;
mod text;

use std::path::{Path, PathBuf};

use bigiron_cpu::build::Architecture;
use bigiron_cpu::simulate::{
    self as model, Costs, KNOWN_CPUS, KnownSizes, Moments, Order, TRACING,
};
use bigiron_cpu::topology::Topology;
use clap::{Args, ValueEnum};

use super::domains::{self, ArchitectureName, KernelName as Names, rules};
#[cfg(feature = "hotplug")]
use super::temporary::JournaledSettings;
use crate::tell::{print, tell};
use results::{Basis, GrowthResults, MachineResults, Origins};

/// Number of states of a machine for which domains are built; more of them change the result
/// little.
const SAMPLES: usize = 8;
/// Topology of the running machine.
const HERE: &str = "/sys/devices/system";

/// `bigiron cpu simulate`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct SimulateArguments {
    /// Description of the machine, as for `bigiron cpu domains --machine`
    #[arg(long, value_name = "WORDS", group = "which", default_value = model::MACHINE)]
    machine: String,
    /// Directory /sys/devices/system of a machine, or a copy
    #[arg(long, value_name = "DIR", group = "which")]
    sysfs: Option<PathBuf>,
    /// Simulate this machine
    #[arg(long, group = "which")]
    here: bool,
    /// Architecture, which determines the levels [default: power; with --here and --sysfs, that
    /// of this machine]
    #[arg(long, value_enum)]
    arch: Option<ArchitectureName>,
    /// Baseline kernel of the comparison [default: 6.1; with --here, the running one]
    #[arg(long, value_enum)]
    kernel: Option<KernelName>,
    /// Source of the costs of basic operations
    #[arg(long, value_enum, default_value_t)]
    costs: CostsName,
    /// Also measure with /sys/kernel/rcu_expedited on, for some milliseconds
    #[cfg(feature = "hotplug")]
    #[arg(long)]
    expedite: bool,
    /// Simulate machines of 64 to 8192 CPUs, built from the same sockets
    #[arg(long, conflicts_with_all = ["sysfs", "here", "history"])]
    growth: bool,
    /// Compare the model with the published times of a machine with 1920 CPUs
    #[arg(long)]
    history: bool,
    /// Output format
    #[arg(long = "as", value_name = "FORM", value_enum, default_value_t)]
    form: Form,
    /// Same as --as json
    #[arg(long, conflicts_with = "form")]
    json: bool,
}

const HELP: &str = "\
Predicts the time to take all hardware threads but one of each core offline: for each method of exporting the scheduler \
domains to user space, with normal and expedited RCU, and with all these CPUs isolated first, so that domains are built \
twice instead of once per CPU. Predictions for machine sizes without known costs are marked as extrapolated.

Costs are those of a POWER10 of 2022, or are measured on this machine in a few seconds, without taking any CPU offline. \
Costs that cannot be measured are assumed; the output names them.

Examples:
  bigiron cpu simulate
  bigiron cpu simulate --history
  bigiron cpu simulate --here --costs measured
  bigiron cpu simulate --machine 'sockets=64 cores=16 threads=8 far=40' --kernel 6.16
  bigiron cpu simulate --growth --as svg > growth.svg";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KernelName {
    /// Until 5.12: domains are exported by sysctl
    #[value(name = "5.12")]
    Linux5_12,
    /// 5.13 to 6.3: domains are exported by debugfs
    #[value(name = "6.1")]
    Linux6_1,
    /// 6.4 to 6.15: domains are exported only on request
    #[value(name = "6.12")]
    Linux6_12,
    /// Since 6.16: the same, and the span check is faster
    #[value(name = "6.16")]
    Linux6_16,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum CostsName {
    /// A POWER10 with 1920 CPUs, as published in 2022
    #[default]
    Power10,
    /// This machine, measured now
    #[cfg(feature = "hotplug")]
    Measured,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A table
    #[default]
    Text,
    /// All values, as JSON
    Json,
    /// A plot, with --growth
    Svg,
}

/// Runs the model and prints its results.
pub fn run(arguments: &SimulateArguments) -> anyhow::Result<()> {
    let form = if arguments.json {
        Form::Json
    } else {
        arguments.form
    };
    if form == Form::Svg && !arguments.growth {
        anyhow::bail!("--as svg needs --growth: it plots the times of machines of all sizes");
    }
    match arguments.growth {
        true => all_sizes(arguments, form),
        false => one_machine(arguments, form),
    }
}

fn one_machine(arguments: &SimulateArguments, form: Form) -> anyhow::Result<()> {
    let (machine, topology) = machine(arguments)?;
    let against = against(arguments);
    let basis = basis(arguments, topology.cpu_count());
    let rules = rules(names(against), architecture(arguments));
    let moments = Moments::new(&topology, &rules, Order::ByCore, SAMPLES);
    let answer = model::answer(&moments, against, &basis.costs, basis.known);
    let everything = MachineResults {
        machine,
        history: match arguments.history {
            true => model::history(&Costs::POWER10, SAMPLES),
            false => Vec::new(),
        },
        basis,
        tracing: TRACING,
        answer,
    };
    print(&match form {
        Form::Json => serde_json::to_string(&everything)? + "\n",
        _ => text::machine(&everything),
    })
}

fn all_sizes(arguments: &SimulateArguments, form: Form) -> anyhow::Result<()> {
    let against = against(arguments);
    let most = model::SIZES.iter().max().copied().unwrap_or(0);
    let basis = basis(arguments, most);
    let rules = rules(names(against), architecture(arguments));
    let growth = model::growth(
        &arguments.machine,
        &rules,
        against,
        &basis.costs,
        basis.known,
        SAMPLES,
    )?;
    let sizes = GrowthResults {
        known: basis.known,
        basis,
        against,
        growth,
    };
    let is_published = arguments.machine == model::MACHINE
        && matches!(arguments.costs, CostsName::Power10)
        && matches!(against, model::KernelName::Linux6_1);
    let published: Vec<(f64, f64)> = match is_published {
        true => model::WHOLE_TIMES
            .iter()
            .map(|(_, seconds)| (KNOWN_CPUS.1 as f64, *seconds))
            .collect(),
        false => Vec::new(),
    };
    print(&match form {
        Form::Json => serde_json::to_string(&sizes)? + "\n",
        Form::Svg => model::picture(
            &sizes.growth,
            &published,
            &text::origin(&sizes.basis, against),
        ),
        Form::Text => text::growth(&sizes),
    })
}

fn machine(arguments: &SimulateArguments) -> anyhow::Result<(String, Topology)> {
    let directory = match (&arguments.sysfs, arguments.here) {
        (Some(directory), _) => directory.as_path(),
        (None, true) => Path::new(HERE),
        (None, false) => {
            let topology = Topology::from_text(&arguments.machine)?;
            return Ok((arguments.machine.clone(), topology));
        }
    };
    let topology = Topology::from_directory(directory)?;
    let (online, _) = Topology::cpus_in(directory)?;
    let off = topology.cpu_count().saturating_sub(online.len());
    if off > 0 {
        tell!(
            "bigiron: {off} CPUs are offline, and their topology is unknown: each counts as an online core"
        );
    }
    Ok((directory.display().to_string(), topology))
}

/// Returns the architecture: by default, that of the published machine for a description, and
/// that of this machine for a directory.
fn architecture(arguments: &SimulateArguments) -> Architecture {
    let described = arguments.sysfs.is_none() && !arguments.here;
    let published = described.then_some(ArchitectureName::Power);
    domains::architecture(arguments.arch.or(published), arguments.sysfs.as_deref())
}

fn against(arguments: &SimulateArguments) -> model::KernelName {
    match arguments.kernel {
        Some(KernelName::Linux5_12) => model::KernelName::Linux5_12,
        Some(KernelName::Linux6_1) => model::KernelName::Linux6_1,
        Some(KernelName::Linux6_12) => model::KernelName::Linux6_12,
        Some(KernelName::Linux6_16) => model::KernelName::Linux6_16,
        None if arguments.here => {
            let system = rustix::system::uname();
            model::KernelName::of_release(&system.release().to_string_lossy())
        }
        None => model::KernelName::Linux6_1,
    }
}

/// Returns the kernel with the same names of levels.
fn names(kernel: model::KernelName) -> Names {
    match kernel {
        model::KernelName::Linux5_12 | model::KernelName::Linux6_1 => Names::Linux6_1,
        model::KernelName::Linux6_12 | model::KernelName::Linux6_16 => Names::Linux6_12,
    }
}

fn published() -> Basis {
    Basis {
        of: "a POWER10 of 2022, with 240 to 1920 CPUs".into(),
        costs: Costs::POWER10,
        origins: Origins::new(),
        known: KnownSizes {
            fewest: KNOWN_CPUS.0,
            most: KNOWN_CPUS.1,
        },
    }
}

#[cfg(feature = "hotplug")]
fn basis(arguments: &SimulateArguments, cpus: usize) -> Basis {
    if matches!(arguments.costs, CostsName::Power10) {
        return published();
    }
    let settings = JournaledSettings {
        lock_timeout: std::time::Duration::ZERO,
        command: "bigiron cpu simulate --expedite",
    };
    let expedite = arguments
        .expedite
        .then_some(&settings as &dyn bigiron_cpu::tune::TemporarySettings);
    let here = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let present = Topology::from_directory(Path::new(HERE));
    let here = present.map_or(here, |topology| topology.cpu_count());
    let measured = model::measure(cpus, expedite);
    Basis {
        of: format!("this machine with {here} CPUs"),
        costs: measured.costs,
        origins: measured.origins,
        known: KnownSizes {
            fewest: here,
            most: here,
        },
    }
}

#[cfg(not(feature = "hotplug"))]
fn basis(_: &SimulateArguments, _: usize) -> Basis {
    published()
}
