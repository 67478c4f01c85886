//! What several measurements have in common.

use std::path::{Path, PathBuf};

use bigiron_bench::machine::Machine;
use bigiron_bench::peers::Place;
use bigiron_bench::results::save;
use bigiron_kernel::{DumpLevel, Source};
use clap::Args;
use serde::Serialize;

use crate::arguments;
use crate::summary;
use crate::tell::tell;

/// How results are given out.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Keep the raw results in this directory too
    #[arg(long, value_name = "DIRECTORY")]
    results: Option<PathBuf>,
}

impl OutputArguments {
    /// Prints `results`, as JSON or as the table that `text` makes of them, and
    /// keeps them as `DATE-NAME.json` where that is wanted.
    pub fn give<T: Serialize>(
        &self,
        machine: &Machine,
        name: &str,
        results: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        if let Some(directory) = &self.results {
            let path = save(directory, machine, name, results)?;
            tell!("bigiron: raw results: {}", path.display());
        }
        let text = if self.json {
            serde_json::to_string_pretty(results)?
        } else {
            format!("{}\n{}", machine.line(), text(results))
        };
        Ok(summary::print(&text, false)?)
    }
}

/// Dumps that are made to be timed.
#[derive(Debug, Args)]
pub struct TrialArguments {
    /// An ELF core or a kdump-compressed dump
    source: PathBuf,
    /// How often each is run; the median counts
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// The dump level
    #[arg(short = 'd', long, value_name = "0..31", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=31))]
    dump_level: u8,
    /// Helper threads [default: one for each CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Where the dumps go [default: memory, if they fit]
    #[arg(long)]
    directory: Option<PathBuf>,
}

impl TrialArguments {
    /// The source, and a place for dumps of it.
    pub fn open(&self) -> anyhow::Result<(Source, Place)> {
        let source = Source::open(std::slice::from_ref(&self.source))?;
        let needed = source.memory().end_frame().0 << source.memory().page_shift();
        let place = Place::choose(self.directory.as_deref().map(Path::new), needed)?;
        Ok((source, place))
    }

    /// What is left out.
    pub fn level(&self) -> DumpLevel {
        DumpLevel::new(self.dump_level).unwrap_or(DumpLevel::MAX)
    }

    /// Helpers.
    pub fn threads(&self) -> usize {
        arguments::threads(self.threads)
    }
}
