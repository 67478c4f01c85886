//! `bigiron cpu tune`: saves and restores tunings of scheduler domains.

mod apply;
mod keep;
mod show;
mod system;

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use bigiron_cpu::tune::{self, SavedValues};
use clap::{Args, Subcommand};

use crate::tell::{print, tell};
use system::{default_domains, running_kernel};

/// `bigiron cpu tune`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct TuneArguments {
    /// Subcommand.
    #[command(subcommand)]
    command: TuneCommand,
}

#[derive(Debug, Subcommand)]
enum TuneCommand {
    /// Save the values that differ from the kernel's own
    Save(SaveArguments),
    /// Apply the rules of a file
    Apply(apply::ApplyArguments),
    /// Keep running, and apply the rules of a file after each rebuild of the domains
    Keep(keep::KeepArguments),
    /// Show the current values, by level
    Show,
}

#[derive(Debug, Args)]
struct SaveArguments {
    /// Output file [default: standard output]
    file: Option<PathBuf>,
    /// Save all values, not only those that differ
    #[arg(long)]
    all: bool,
}

const HELP: &str = "\
A file contains rules; later rules override earlier ones:

  {\"rules\": [
    {\"domain\": \"MC\", \"imbalance_pct\": 125},
    {\"domain\": \"NUMA\", \"cpus\": \"0-63\", \"min_interval\": 64, \"max_interval\": 128}
  ]}

A rule sets some of min_interval, max_interval (milliseconds), busy_factor, imbalance_pct and cache_nice_tries in the \
domains with this name, or in all domains without \"domain\". \"level\" restricts it to a level number of the kernel, \
and \"cpus\" to the domains of these CPUs.

The kernel resets all values when it rebuilds its domains: when a CPU goes offline or online, and when cpusets change.

Examples:
  bigiron cpu tune show
  bigiron cpu tune save /etc/bigiron/domains.json
  bigiron cpu tune apply /etc/bigiron/domains.json --dry-run
  bigiron cpu tune keep /etc/bigiron/domains.json";

/// Runs the subcommand.
pub fn run(arguments: &TuneArguments) -> anyhow::Result<()> {
    match &arguments.command {
        TuneCommand::Save(arguments) => save(arguments),
        TuneCommand::Apply(arguments) => apply::run(arguments),
        TuneCommand::Keep(arguments) => keep::run(arguments),
        TuneCommand::Show => print(&show::show(&running_kernel()?, default_domains().as_ref())?),
    }
}

fn save(arguments: &SaveArguments) -> anyhow::Result<()> {
    let which = match arguments.all {
        true => SavedValues::All,
        false => SavedValues::Changed,
    };
    let rules = tune::save(&running_kernel()?, default_domains().as_ref(), which)?;
    let text = serde_json::to_string_pretty(&rules)? + "\n";
    match &arguments.file {
        Some(file) => fs::write(file, text).with_context(|| file.display().to_string())?,
        None => print(&text)?,
    }
    if rules.rules.is_empty() {
        tell!("bigiron: all values are the kernel's own; nothing to save");
    }
    Ok(())
}
