//! `bigiron bench dump`: bigiron beside makedumpfile and others.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_bench::machine::Machine;
use bigiron_bench::peers::{self, PeersOptions};
use bigiron_bench::results;
use bigiron_format::codec::Codec;
use bigiron_helpers::{Stop, processor_count};
use bigiron_kernel::DumpLevel;
use clap::Args;

use crate::signals;
use crate::summary;
use crate::tell::tell;

/// `bigiron bench dump`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct DumpBenchArguments {
    /// What is dumped: an ELF core or a kdump-compressed dump
    source: PathBuf,
    /// Codecs
    #[arg(long, value_name = "CODEC,...", value_delimiter = ',')]
    #[arg(default_value = "none,lzo,zlib,snappy,zstd")]
    codecs: Vec<Codec>,
    /// Dump levels
    #[arg(
        long,
        value_name = "LEVEL,...",
        value_delimiter = ',',
        default_value = "1,31"
    )]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=31))]
    levels: Vec<u8>,
    /// How often each is run; the median counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Helpers, and threads of other programs, at most [default: one for each CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Where the dumps go [default: /dev/shm if they fit, else where temporary files go]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Where the raw times are kept
    #[arg(long, value_name = "DIRECTORY", default_value = "bench-results")]
    results: PathBuf,
    /// Leave out vmdumps, and zstd, lbzip2 and pbzip2 on the whole ELF core
    #[arg(long)]
    no_compressors: bool,
    /// Print what is kept, as JSON, in place of the table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Runs bigiron with one and with all helpers and makedumpfile without threads and with 1, 2, 4 and \
so on up to N, in turns, and compares what they make, page by page. A mode of makedumpfile that \
is twice as slow as its best is not run again, and one four times as slow is ended. Beside them stands the limit: the bare codec over \
the same pages, in memory. Programs that are not installed are left out.

Exit status: 0 it was measured; 1 it was not, or two dumps have other bytes in the same page; \
129, 130 or 143 a signal ended it. All dumps are removed in the end.";

/// Measures, prints and keeps the results.
pub fn run(arguments: &DumpBenchArguments) -> anyhow::Result<()> {
    let stop = Stop::new();
    signals::watch(&stop)?;
    let machine = Machine::here();
    let levels = arguments.levels.iter().copied().filter_map(DumpLevel::new);
    let options = PeersOptions {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        source: arguments.source.clone(),
        codecs: arguments.codecs.clone(),
        levels: levels.collect(),
        runs: arguments.runs.into(),
        helpers: arguments.threads.map_or_else(processor_count, usize::from),
        directory: arguments.directory.clone(),
        compressors: !arguments.no_compressors,
    };
    let measured = peers::run(&options, &stop, &|text| tell!("bigiron: {text}"))?;
    if arguments.json {
        let document = serde_json::json!({ "machine": machine, "results": measured });
        summary::print(&serde_json::to_string_pretty(&document)?, false)?;
    } else {
        summary::print(&measured.text(&machine), false)?;
    }
    let kept = results::save(&arguments.results, &machine, "dump", &measured)?;
    tell!("bigiron: raw times: {}", shown(&kept).display());
    let wrong = measured.wrong_rows();
    anyhow::ensure!(
        wrong.is_empty(),
        "{}: two dumps of the same source do not agree; the notes under the table say where",
        wrong.join(", ")
    );
    Ok(())
}

/// Where the results really are, whatever directory this is.
fn shown(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
