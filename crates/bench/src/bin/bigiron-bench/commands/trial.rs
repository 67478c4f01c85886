//! Options of measurements that time whole dumps.

use std::path::PathBuf;

use bigiron_bench::peers::OutputDirectory;
use bigiron_helpers::processor_count;
use bigiron_kernel::{DumpLevel, Source};
use clap::Args;

/// Options of measurements that time whole dumps.
#[derive(Debug, Args)]
pub struct TrialArguments {
    /// An ELF core or a kdump-compressed dump
    source: PathBuf,
    /// Runs of each; the median counts
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// The dump level
    #[arg(short = 'd', long, value_name = "0..31", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=31))]
    dump_level: u8,
    /// Helper threads [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Directory for the dumps [default: /dev/shm if they fit, else the directory for temporary files]
    #[arg(long)]
    directory: Option<PathBuf>,
}

impl TrialArguments {
    /// Opens the source and creates a directory for its dumps.
    pub fn open(&self) -> anyhow::Result<(Source, OutputDirectory)> {
        let source = Source::open(std::slice::from_ref(&self.source))?;
        let needed = source.memory().end_frame().0 << source.memory().page_shift();
        let place = OutputDirectory::choose(self.directory.as_deref(), needed)?;
        Ok((source, place))
    }

    /// Returns the dump level.
    pub fn level(&self) -> DumpLevel {
        DumpLevel::new(self.dump_level).unwrap_or(DumpLevel::MAX)
    }

    /// Returns the number of helpers.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(processor_count, usize::from)
    }
}
