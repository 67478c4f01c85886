//! `bigiron-bench chunk`: compares chunk sizes of vmdumps.

use crate::measure::chunk::{ChunkOptions, measure, table};
use bigiron_bench::machine::Machine;
use clap::Args;

use super::trial::TrialArguments;
use bigiron_bench::output::OutputArguments;

/// `bigiron-bench chunk`.
#[derive(Debug, Args)]
pub struct ChunkArguments {
    /// The dumps that are timed.
    #[command(flatten)]
    trial: TrialArguments,
    /// Compression level of zstd
    #[arg(long, default_value_t = 1, allow_hyphen_values = true)]
    zstd_level: i32,
    /// Output of the results.
    #[command(flatten)]
    output: OutputArguments,
}

/// Makes the same dump with one helper and chunks of each size.
pub fn run(arguments: &ChunkArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let (source, place) = arguments.trial.open()?;
    let options = ChunkOptions {
        zstd_level: arguments.zstd_level,
        level: arguments.trial.level(),
        runs: arguments.trial.runs,
    };
    let results = measure(&source, place.path(), &options)?;
    arguments
        .output
        .print(&machine, "chunk", &results, |rows| table(rows))
}
