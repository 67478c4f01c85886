//! `bigiron-bench read`: measures random reads of a dump.

use std::path::PathBuf;

use crate::measure::read::{ReadOptions, addresses, measure, table};
use anyhow::Context;
use bigiron_bench::machine::Machine;
use bigiron_kernel::Source;
use clap::Args;

use bigiron_bench::output::OutputArguments;
use bigiron_helpers::parse_size;

/// `bigiron-bench read`.
#[derive(Debug, Args)]
pub struct ReadArguments {
    /// A vmdump or a kdump-compressed dump; all parts of a striped or split one
    #[arg(required = true)]
    dump: Vec<PathBuf>,
    /// Runs of each; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Size of the cache; the working set is half of it
    #[arg(long, value_name = "SIZE", default_value_t = Source::DEFAULT_CACHE)]
    #[arg(value_parser = parse_size)]
    cache: u64,
    /// Only write the physical addresses of the pages read, so that other programs can read the
    /// same ones: files `all`, `hot` and `cold` in this directory, of 64-bit little-endian
    /// integers
    #[arg(long, value_name = "DIRECTORY")]
    list: Option<PathBuf>,
    /// Output of the results.
    #[command(flatten)]
    output: OutputArguments,
}

/// Reads the dump in all ways.
pub fn run(arguments: &ReadArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let options = ReadOptions {
        dump: arguments.dump.clone(),
        cache: arguments.cache,
        runs: arguments.runs,
    };
    if let Some(directory) = &arguments.list {
        let addresses = addresses(&options)?;
        let lists = [
            ("all", addresses.all),
            ("hot", addresses.hot),
            ("cold", addresses.cold),
        ];
        for (name, list) in lists {
            let path = directory.join(name);
            let bytes: Vec<u8> = list.iter().flat_map(|at| at.to_le_bytes()).collect();
            std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        }
        return Ok(());
    }
    let results = measure(&options)?;
    arguments.output.print(&machine, "read", &results, table)
}
