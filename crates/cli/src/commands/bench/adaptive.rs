//! `bigiron bench adaptive`: does adaptive compression find the best?

use std::num::NonZeroU64;

use bigiron_bench::adaptive::{AdaptiveOptions, measure, table};
use bigiron_bench::machine::Machine;
use clap::Args;

use crate::bench_output::{OutputArguments, TrialArguments};

/// `bigiron bench adaptive`.
#[derive(Debug, Args)]
pub struct AdaptiveArguments {
    /// What is dumped.
    #[command(flatten)]
    trial: TrialArguments,
    /// Megabytes (10^6 bytes) a second of the disks that are simulated
    #[arg(long, value_delimiter = ',', default_value = "50,500,5000")]
    rates: Vec<NonZeroU64>,
    /// How results are given out.
    #[command(flatten)]
    output: OutputArguments,
}

/// Every fixed compression and the adaptive one, on each disk.
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
        .give(&machine, "adaptive", &results, |disks| table(disks))
}
