//! `bigiron mem bench`: large memory by the plain calls and by helpers.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use anyhow::Context;
use bigiron_bench::large_memory::table::table;
use bigiron_bench::large_memory::{Options, measure, plain_once};
use bigiron_bench::machine::Machine;
use bigiron_bench::output::OutputArguments;
use bigiron_helpers::Stop;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::size;
use crate::summary;
use crate::tell::tell;

/// `bigiron mem bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// Memory of each trial [default: 1G, and 256M with --quick]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// How often each is run, by turns; the medians count [default: 5, and 3 with --quick]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Less memory and fewer rounds: below a minute
    #[arg(long)]
    quick: bool,
    /// Also find the size from which on helpers win
    #[arg(long)]
    threshold: bool,
    /// As root: set shmem_enabled to advise and reserve hugetlb pages where trials need
    /// that, and put both back after each
    #[arg(long)]
    allow_huge: bool,
    /// Leave other programs out (QEMU, fallocate)
    #[arg(long)]
    no_peers: bool,
    /// The plain calls once, on a segment; prints the seconds to create and to destroy it
    #[arg(long, hide = true, requires = "size")]
    plain_once: bool,
    /// Where the results go.
    #[command(flatten)]
    output: OutputArguments,
}

/// Measures, and prints the tables.
pub fn run(arguments: &BenchArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let quick = arguments.quick;
    let size = arguments
        .size
        .unwrap_or(if quick { 256 << 20 } else { 1 << 30 });
    let program = std::env::current_exe().ok();
    let size = usize::try_from(size).context("--size is more than there are addresses")?;
    if arguments.plain_once {
        let (create, destroy) = plain_once(size)?;
        return Ok(summary::print(&format!("{create} {destroy}"), false)?);
    }
    let options = Options {
        size,
        rounds: usize::from(arguments.rounds.unwrap_or(if quick { 3 } else { 5 })),
        allow_huge: arguments.allow_huge,
        threshold: arguments.threshold,
        peers: !arguments.no_peers,
        small: Duration::from_secs(if quick { 4 } else { 24 }),
        program: program.and_then(|path| CString::new(path.into_os_string().into_vec()).ok()),
    };
    // Only noted, however many come: segments and settings are to be put back first.
    let stop = Stop::new();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.flag()).context("cannot catch signals")?;
    }
    let results = measure(&options, &machine, &stop, &mut |text| {
        tell!("bigiron: {text}")
    })?;
    arguments
        .output
        .print(&machine, "large-memory", &results, table)
}
