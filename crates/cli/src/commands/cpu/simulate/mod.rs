//! `bigiron cpu simulate`.

mod text;

use std::path::{Path, PathBuf};

use bigiron_cpu::simulate::{
    self as model, Answer, Costs, Growth, KNOWN_CPUS, Known, Moments, Order, Published, TRACING,
};
use bigiron_cpu::topology::Topology;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::domains::{ArchitectureName, KernelName as Names, rules};
#[cfg(feature = "hotplug")]
use super::temporary::BySettings;
use crate::tell::{print, tell};

/// Moments of a machine for which domains are built: more of them change little.
const SAMPLES: usize = 8;
/// What the running kernel shows of itself.
const HERE: &str = "/sys/devices/system";

/// `bigiron cpu simulate`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct SimulateArguments {
    /// The machine by words, as for `bigiron cpu domains --machine`
    #[arg(long, value_name = "WORDS", group = "which", default_value = model::MACHINE)]
    machine: String,
    /// A machine by its directory /sys/devices/system, or a copy of that
    #[arg(long, value_name = "DIR", group = "which")]
    sysfs: Option<PathBuf>,
    /// The machine at hand
    #[arg(long, group = "which")]
    here: bool,
    /// Whose levels it has [default: power; with --here and --sysfs this machine's]
    #[arg(long, value_enum)]
    arch: Option<ArchitectureName>,
    /// The kernel that all is held against [default: 6.1; with --here the running one]
    #[arg(long, value_enum)]
    kernel: Option<KernelName>,
    /// Whose costs of basic operations
    #[arg(long, value_enum, default_value_t)]
    costs: CostsName,
    /// Measure also with /sys/kernel/rcu_expedited on, for some milliseconds
    #[cfg(feature = "hotplug")]
    #[arg(long)]
    expedite: bool,
    /// The same on machines of 64 to 8192 CPUs, of the same sockets
    #[arg(long, conflicts_with_all = ["sysfs", "here", "history"])]
    growth: bool,
    /// Hold the model against what was published of a machine with 1920 CPUs
    #[arg(long)]
    history: bool,
    /// What is printed
    #[arg(long = "as", value_name = "FORM", value_enum, default_value_t)]
    form: Form,
    /// The same as --as json
    #[arg(long, conflicts_with = "form")]
    json: bool,
}

const HELP: &str = "\
How long it takes to leave one hardware thread in each core, by ways to show the scheduler domains to user space, by \
RCU's pace, and with all CPUs that go set apart first, which builds the domains twice and not once for each. \
What is a guess is marked: extrapolated are machines that no costs are known of.

Costs are those of a POWER10 of 2022, or measured here in a few seconds. Nothing is taken offline for it; what cannot be \
measured is assumed, and the output says which.

Examples:
  bigiron cpu simulate
  bigiron cpu simulate --history
  bigiron cpu simulate --here --costs measured
  bigiron cpu simulate --machine 'sockets=64 cores=16 threads=8 far=40' --kernel 6.16
  bigiron cpu simulate --growth --as svg > growth.svg";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KernelName {
    /// Until 5.12: domains are shown by sysctl
    #[value(name = "5.12")]
    Linux5_12,
    /// 5.13 to 6.3: by debugfs
    #[value(name = "6.1")]
    Linux6_1,
    /// 6.4 to 6.15: only if asked for
    #[value(name = "6.12")]
    Linux6_12,
    /// Since 6.16: and they are checked in less time
    #[value(name = "6.16")]
    Linux6_16,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum CostsName {
    /// A POWER10 with 1920 CPUs, as published in 2022
    #[default]
    Power10,
    /// This machine's
    #[cfg(feature = "hotplug")]
    Measured,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A table
    #[default]
    Text,
    /// Everything
    Json,
    /// Of --growth: a plot
    Svg,
}

/// Where costs are from, for programs.
#[cfg(feature = "hotplug")]
type Origins = Vec<model::Origin>;
#[cfg(not(feature = "hotplug"))]
type Origins = Vec<()>;

/// The costs and what is known of them.
#[derive(Serialize)]
struct Basis {
    /// In words.
    #[serde(rename = "costs_of")]
    of: String,
    costs: Costs,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    origins: Origins,
    #[serde(skip)]
    known: Known,
}

/// Everything about one machine, for programs.
#[derive(Serialize)]
struct Everything {
    machine: String,
    #[serde(flatten)]
    basis: Basis,
    tracing: f64,
    #[serde(flatten)]
    answer: Answer,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Published>,
}

/// Everything about machines of all sizes.
#[derive(Serialize)]
struct AllSizes {
    #[serde(flatten)]
    basis: Basis,
    against: model::KernelName,
    known: Known,
    #[serde(flatten)]
    growth: Growth,
}

/// Runs the model and prints what it says.
pub fn run(arguments: &SimulateArguments) -> anyhow::Result<()> {
    let form = if arguments.json {
        Form::Json
    } else {
        arguments.form
    };
    if form == Form::Svg && !arguments.growth {
        anyhow::bail!("--as svg draws how times grow with machines: it needs --growth");
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
    let everything = Everything {
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
    let sizes = AllSizes {
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
            "bigiron: {off} CPUs are offline, and nothing tells where: each counts as a core that is online"
        );
    }
    Ok((directory.display().to_string(), topology))
}

/// By default, of a description the published machine's; of a directory this machine's.
fn architecture(arguments: &SimulateArguments) -> ArchitectureName {
    let described = arguments.sysfs.is_none() && !arguments.here;
    arguments.arch.unwrap_or(match std::env::consts::ARCH {
        _ if described => ArchitectureName::Power,
        "x86" | "x86_64" => ArchitectureName::X86,
        "powerpc" | "powerpc64" => ArchitectureName::Power,
        _ => ArchitectureName::Generic,
    })
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

/// Whose names of levels a kernel has.
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
        known: Known {
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
    let settings = BySettings {
        patience: std::time::Duration::ZERO,
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
        of: format!("this machine of {here} CPUs"),
        costs: measured.costs,
        origins: measured.origins,
        known: Known {
            fewest: here,
            most: here,
        },
    }
}

#[cfg(not(feature = "hotplug"))]
fn basis(_: &SimulateArguments, _: usize) -> Basis {
    published()
}
