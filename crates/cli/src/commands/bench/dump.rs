//! `bigiron bench dump`: compares dumps by bigiron, makedumpfile and compressors.

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
    /// Source of the dumps: an ELF core or a kdump-compressed dump
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
    /// Runs per measurement, of which the median is reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Maximum number of helpers, and of threads of other programs [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Directory for the dumps [default: /dev/shm if they fit, otherwise the directory for
    /// temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Directory for the raw times
    #[arg(long, value_name = "DIRECTORY", default_value = "bench-results")]
    results: PathBuf,
    /// Skip vmdumps, and zstd, lbzip2 and pbzip2 on the whole ELF core
    #[arg(long)]
    no_compressors: bool,
    /// Print the saved results as JSON instead of the table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Runs bigiron with one helper and with all, and makedumpfile without threads and with 1, 2, 4 and \
so on up to N threads, alternately, and compares their dumps page by page. A mode of makedumpfile \
that takes twice as long as its best is not run again, and one that takes four times as long is \
stopped. The bare codec over the same pages in memory is the limit. Programs that are not installed \
are skipped.

Exit status: 0 success; 1 failure, or two dumps differ in the bytes of a page; 129, 130 or 143 ended \
by a signal. All dumps are removed at the end.";

/// Measures, prints and saves the results.
pub fn run(arguments: &DumpBenchArguments) -> anyhow::Result<()> {
    let stop = Stop::new();
    signals::watch(&stop)?;
    let machine = Machine::here();
    let levels = arguments.levels.iter().copied().filter_map(DumpLevel::new);
    let options = PeersOptions {
        program: std::env::current_exe().context("cannot find the path of this program")?,
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
        "{}: two dumps of the same source differ; see the notes below the table",
        wrong.join(", ")
    );
    Ok(())
}

/// Returns the absolute path of the results.
fn shown(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
