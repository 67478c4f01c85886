//! `bigiron-bench optimizations`: measures the effect of each optimisation.

use crate::measure::optimizations::{OptimizationsOptions, measure, table};
use bigiron_bench::machine::Machine;
use bigiron_format::codec::Compression;
use clap::Args;

use super::trial::TrialArguments;
use bigiron_bench::output::OutputArguments;

/// `bigiron-bench optimizations`.
#[derive(Debug, Args)]
pub struct OptimizationsArguments {
    /// The dumps that are timed.
    #[command(flatten)]
    trial: TrialArguments,
    /// The codecs
    #[arg(short, long, value_delimiter = ',')]
    #[arg(default_value = "none,lzo,zlib,snappy,zstd")]
    compress: Vec<Compression>,
    /// Output of the results.
    #[command(flatten)]
    output: OutputArguments,
}

/// Makes the same dump with all optimisations, and without each.
pub fn run(arguments: &OptimizationsArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let (source, place) = arguments.trial.open()?;
    let options = OptimizationsOptions {
        compressions: arguments.compress.clone(),
        level: arguments.trial.level(),
        threads: arguments.trial.threads(),
        runs: arguments.trial.runs,
    };
    let results = measure(&source, place.path(), &options)?;
    arguments
        .output
        .print(&machine, "optimizations", &results, |rows| table(rows))
}
