//! `bigiron-bench stripes`: are several disks as much faster as they are many?

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
    /// Megabytes (10^6 bytes) a second of each disk that is simulated
    #[arg(long, default_value = "20")]
    rate: NonZeroU64,
    /// Files that the dump is striped over, the first for comparison
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    parts: Vec<usize>,
    /// Where the results go.
    #[command(flatten)]
    output: OutputArguments,
}

/// The same dump to one slow disk and to several.
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
