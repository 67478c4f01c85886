//! `bigiron-bench filter`: measures the throughput of the filter.

use std::path::PathBuf;

use crate::measure::filter::{FilterOptions, measure, table};
use bigiron_bench::machine::Machine;
use bigiron_kernel::{DumpLevel, IoMethod};
use clap::{Args, ValueEnum};

use bigiron_bench::output::OutputArguments;

/// Access method for the source.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Io {
    /// The faster of the two
    Auto,
    /// Map the file
    Mmap,
    /// Read the file
    Read,
}

impl From<Io> for IoMethod {
    fn from(io: Io) -> Self {
        match io {
            Io::Auto => Self::Auto,
            Io::Mmap => Self::Mmap,
            Io::Read => Self::Read,
        }
    }
}

/// `bigiron-bench filter`.
#[derive(Debug, Args)]
pub struct FilterArguments {
    /// An ELF core or a kdump-compressed dump
    source: PathBuf,
    /// Runs of each; the median counts
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// The dump level
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u8).range(0..=31))]
    level: u8,
    /// How to read the source
    #[arg(long, value_enum, default_value_t = Io::Auto)]
    io: Io,
    /// Output of the results.
    #[command(flatten)]
    output: OutputArguments,
}

/// Measures the filter alone: from the source and from memory, compared with a plain sum of the
/// same bytes; with 64 struct pages at once and one by one.
pub fn run(arguments: &FilterArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let results = measure(&FilterOptions {
        source: arguments.source.clone(),
        io: arguments.io.into(),
        level: DumpLevel::new(arguments.level).unwrap_or(DumpLevel::MAX),
        runs: arguments.runs,
    })?;
    arguments.output.print(&machine, "filter", &results, table)
}
