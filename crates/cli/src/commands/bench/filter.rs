//! `bigiron bench filter`: how fast struct pages are looked at.

use std::path::PathBuf;

use bigiron_bench::filter::{FilterOptions, measure, table};
use bigiron_bench::machine::Machine;
use bigiron_kernel::DumpLevel;
use clap::Args;

use crate::arguments::Io;
use crate::bench_output::OutputArguments;

/// `bigiron bench filter`.
#[derive(Debug, Args)]
pub struct FilterArguments {
    /// An ELF core or a kdump-compressed dump
    source: PathBuf,
    /// How often each is run; the median counts
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// The dump level
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u8).range(0..=31))]
    level: u8,
    /// How to read the source
    #[arg(long, value_enum, default_value_t = Io::Auto)]
    io: Io,
    /// How results are given out.
    #[command(flatten)]
    output: OutputArguments,
}

/// The filter alone: from the source and from memory, beside a mere sum of the
/// same bytes; with 64 struct pages at once and one by one.
pub fn run(arguments: &FilterArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let results = measure(&FilterOptions {
        source: arguments.source.clone(),
        io: arguments.io.into(),
        level: DumpLevel::new(arguments.level).unwrap_or(DumpLevel::MAX),
        runs: arguments.runs,
    })?;
    arguments.output.give(&machine, "filter", &results, table)
}
