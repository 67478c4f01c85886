//! `bigiron cpu tune`: what an administrator may change of scheduler domains, noted down and put
//! back.

mod apply;
mod keep;
mod show;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bigiron_cpu::build::Rules as Kernel;
use bigiron_cpu::source::{self, DomainSource, Machine, Running};
use bigiron_cpu::topology::Topology;
use bigiron_cpu::tune::{self, Rules, Tuner, Which};
use bigiron_cpu::{CpuList, DomainTree};
use clap::{Args, Subcommand};

use super::temporary::BySettings;
use crate::tell::{print, tell};

/// Where the kernel shows how its CPUs lie.
const SYSFS: &str = "/sys/devices/system";

/// `bigiron cpu tune`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct TuneArguments {
    /// What to do.
    #[command(subcommand)]
    command: TuneCommand,
}

#[derive(Debug, Subcommand)]
enum TuneCommand {
    /// Note down what differs from what the kernel gives its domains
    Save(SaveArguments),
    /// Put back what a file says
    Apply(apply::ApplyArguments),
    /// Stay, and put back what a file says each time the kernel has built its domains anew
    Keep(keep::KeepArguments),
    /// Show what is set, by levels
    Show,
}

#[derive(Debug, Args)]
struct SaveArguments {
    /// Where to [default: standard output]
    file: Option<PathBuf>,
    /// Everything, not only what differs
    #[arg(long)]
    all: bool,
}

const HELP: &str = "\
A file has rules, of which the later counts where two set the same:

  {\"rules\": [
    {\"domain\": \"MC\", \"imbalance_pct\": 125},
    {\"domain\": \"NUMA\", \"cpus\": \"0-63\", \"min_interval\": 64, \"max_interval\": 128}
  ]}

A rule sets some of min_interval, max_interval (milliseconds), busy_factor, imbalance_pct and cache_nice_tries of the \
domains that have this name; without \"domain\", of all; with \"level\", only of those with the kernel's number \
of the level; with \"cpus\", only those of these CPUs.

The kernel forgets all of it whenever it builds its domains anew: when a CPU goes or comes, and when cpusets change.

Examples:
  bigiron cpu tune show
  bigiron cpu tune save /etc/bigiron/domains.json
  bigiron cpu tune apply /etc/bigiron/domains.json --dry-run
  bigiron cpu tune keep /etc/bigiron/domains.json";

/// Does what was asked for.
pub fn run(arguments: &TuneArguments) -> anyhow::Result<()> {
    match &arguments.command {
        TuneCommand::Save(arguments) => save(arguments),
        TuneCommand::Apply(arguments) => apply::run(arguments),
        TuneCommand::Keep(arguments) => keep::run(arguments),
        TuneCommand::Show => print(&show::show(&running()?, built().as_ref())?),
    }
}

fn save(arguments: &SaveArguments) -> anyhow::Result<()> {
    let which = match arguments.all {
        true => Which::All,
        false => Which::Changed,
    };
    let rules = tune::save(&running()?, built().as_ref(), which)?;
    let text = serde_json::to_string_pretty(&rules)? + "\n";
    match &arguments.file {
        Some(file) => fs::write(file, text).with_context(|| file.display().to_string())?,
        None => print(&text)?,
    }
    if rules.rules.is_empty() {
        tell!("bigiron: every value is the kernel's own: there is nothing to save");
    }
    Ok(())
}

/// Rules out of a file.
fn read(file: &Path) -> anyhow::Result<Rules> {
    let name = file.display();
    let text = fs::read(file).with_context(|| name.to_string())?;
    let rules: Rules = serde_json::from_slice(&text).with_context(|| {
        format!("{name}: expected rules such as {{\"rules\": [{{\"domain\": \"MC\", \"imbalance_pct\": 125}}]}}")
    })?;
    match rules.fault() {
        Some(fault) => bail!("{name}: {fault}"),
        None => Ok(rules),
    }
}

/// The running kernel, which must tell tunables.
fn running() -> anyhow::Result<Running> {
    let running = source::running()?;
    for warning in running.warnings() {
        tell!("bigiron: warning: {warning}");
    }
    let tree = running.read()?;
    let mut domains = tree.cpus.values().flatten();
    if domains.clone().next().is_some() && domains.all(|domain| domain.tunables.is_none()) {
        bail!("the tunables of this kernel's domains cannot be read: see the warnings");
    }
    Ok(running)
}

/// What the kernel would build with no CPU set apart, if its topology tells.
fn built() -> Option<DomainTree> {
    let directory = Path::new(SYSFS);
    let machine = Machine {
        description: SYSFS.into(),
        topology: Topology::from_directory(directory).ok()?,
        online: bigiron_cpu::System::running().online().ok()?,
        isolated: CpuList::default(),
        rules: Kernel::LINUX_6_12,
    };
    machine.read().ok()
}

fn tuner(patience: Duration, command: &'static str) -> Tuner {
    Tuner::running(BySettings { patience, command })
}
