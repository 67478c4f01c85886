//! `bigiron bench`: measures on the machine at hand.

pub mod cache;

use clap::{Args, Subcommand};

/// `bigiron bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// What to measure.
    #[command(subcommand)]
    pub what: BenchCommand,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The page cache: without, with 8 pages, with the default, on few and on many lookups
    Cache(cache::CacheArguments),
}

/// Runs a measurement and prints its table.
pub fn run(arguments: &BenchArguments) -> anyhow::Result<()> {
    match &arguments.what {
        BenchCommand::Cache(arguments) => cache::run(arguments),
    }
}
