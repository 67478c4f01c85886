//! `bigiron-bench stripes`: measures the speedup of dumps striped over several disks.

use std::num::NonZeroU64;

use crate::measure::stripes::{measure, table};
use bigiron_bench::machine::Machine;
use bigiron_dump::DumpOptions;
use clap::Args;

use super::trial::TrialArguments;
use bigiron_bench::output::OutputArguments;

/// `bigiron-bench stripes`.
#[derive(Debug, Args)]
pub struct StripesArguments {
    /// The dumps that are timed.
    #[command(flatten)]
    trial: TrialArguments,
    /// Bandwidth of each simulated disk in MB/s (10^6 bytes)
    #[arg(long, default_value = "20")]
    rate: NonZeroU64,
    /// Numbers of files over which the dump is striped; the first is the reference
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    parts: Vec<usize>,
    /// Output of the results.
    #[command(flatten)]
    output: OutputArguments,
}

/// Makes the same dump on one slow disk and on several.
pub fn run(arguments: &StripesArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let (source, place) = arguments.trial.open()?;
    let limit = arguments
        .rate
        .saturating_mul(NonZeroU64::MIN.saturating_add(999_999));
    let options = DumpOptions {
        level: arguments.trial.level(),
        threads: arguments.trial.threads(),
        ..DumpOptions::default()
    };
    let (parts, runs) = (&arguments.parts, arguments.trial.runs);
    let results = measure(&source, place.path(), &options, limit, parts, runs)?;
    arguments
        .output
        .print(&machine, "stripes", &results, |rows| table(rows))
}
