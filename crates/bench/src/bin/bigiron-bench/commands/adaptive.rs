//! `bigiron-bench adaptive`: compares adaptive compression with every fixed one.

use std::num::NonZeroU64;

use crate::measure::adaptive::{AdaptiveOptions, measure, table};
use bigiron_bench::machine::Machine;
use clap::Args;

use super::trial::TrialArguments;
use bigiron_bench::output::OutputArguments;

/// `bigiron-bench adaptive`.
#[derive(Debug, Args)]
pub struct AdaptiveArguments {
    /// The dumps that are timed.
    #[command(flatten)]
    trial: TrialArguments,
    /// Bandwidths of the simulated disks in MB/s (10^6 bytes)
    #[arg(long, value_delimiter = ',', default_value = "50,500,5000")]
    rates: Vec<NonZeroU64>,
    /// Output of the results.
    #[command(flatten)]
    output: OutputArguments,
}

/// Measures every fixed compression and the adaptive one on each disk.
pub fn run(arguments: &AdaptiveArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let (source, place) = arguments.trial.open()?;
    let megabyte = NonZeroU64::MIN.saturating_add(999_999);
    let rates = arguments.rates.iter();
    let options = AdaptiveOptions {
        rates: rates.map(|rate| rate.saturating_mul(megabyte)).collect(),
        level: arguments.trial.level(),
        threads: arguments.trial.threads(),
        runs: arguments.trial.runs,
    };
    let results = measure(&source, place.path(), &options)?;
    arguments
        .output
        .print(&machine, "adaptive", &results, |disks| table(disks))
}
