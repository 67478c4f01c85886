//! `bigiron cpu`: scheduler domains, and what it costs to take CPUs off line.

mod domains;
mod simulate;

use clap::{Args, Subcommand};

/// `bigiron cpu`.
#[derive(Debug, Args)]
pub struct CpuArguments {
    /// What to do.
    #[command(subcommand)]
    command: CpuCommand,
}

#[derive(Debug, Subcommand)]
enum CpuCommand {
    /// Show the scheduler domains of the running kernel, of a dump, or of a machine that is described
    Domains(Box<domains::DomainsArguments>),
    /// Say how long taking hardware threads off line takes, by a model
    Simulate(simulate::SimulateArguments),
}

/// Does what was asked for.
pub fn run(arguments: &CpuArguments) -> anyhow::Result<()> {
    match &arguments.command {
        CpuCommand::Domains(arguments) => domains::run(arguments),
        CpuCommand::Simulate(arguments) => simulate::run(arguments),
    }
}
