//! `bigiron bench`: measurements on this machine.

pub mod dump;
pub mod scale;
mod scale_report;
pub mod vmcore;

use clap::{Args, Subcommand};

/// `bigiron bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// Subcommand.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// Subcommands of `bigiron bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Compare dumps of a source by bigiron, makedumpfile and compressors with the bare codec
    Dump(dump::DumpBenchArguments),
    /// Predict dump times of larger machines, and check the model against local dumps and
    /// published times
    Scale(scale::ScaleArguments),
    /// Measure the read rate of a source by mmap and by read, with 1, 2, 4, ... helpers
    Vmcore(vmcore::VmcoreArguments),
}

/// Runs a measurement and prints its table.
pub fn run(arguments: &BenchArguments) -> anyhow::Result<()> {
    match &arguments.command {
        BenchCommand::Dump(arguments) => dump::run(arguments),
        BenchCommand::Scale(arguments) => scale::run(arguments),
        BenchCommand::Vmcore(arguments) => vmcore::run(arguments),
    }
}
