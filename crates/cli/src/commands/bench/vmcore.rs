//! `bigiron bench vmcore`: measures the read rate of a source.

use std::path::PathBuf;

use bigiron_bench::machine::Machine;
use bigiron_bench::output::OutputArguments;
use bigiron_bench::vmcore::{VmcoreOptions, measure, table};
use bigiron_helpers::processor_count;
use bigiron_kernel::{DumpLevel, Source};
use clap::Args;

/// `bigiron bench vmcore`.
#[derive(Debug, Args)]
pub struct VmcoreArguments {
    /// Source to read; in a capture kernel, /proc/vmcore
    #[arg(default_value = "/proc/vmcore")]
    source: PathBuf,
    /// Numbers of helpers [default: 1, 2, 4 and so on up to the number of CPUs]
    #[arg(short = 'j', long, value_name = "N", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Vec<u16>,
    /// Runs per measurement
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// The dump level
    #[arg(short = 'd', long, value_name = "0..31", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=31))]
    dump_level: u8,
    /// Options for the output.
    #[command(flatten)]
    output: OutputArguments,
}

/// Dumps without an output, by mmap and by read, with increasing numbers of helpers.
pub fn run(arguments: &VmcoreArguments) -> anyhow::Result<()> {
    let machine = Machine::here();
    let source = Source::open(std::slice::from_ref(&arguments.source))?;
    let mut threads: Vec<usize> = arguments.threads.iter().map(|n| usize::from(*n)).collect();
    if threads.is_empty() {
        let all = processor_count();
        threads.extend((0..).map(|power| 1 << power).take_while(|n| *n < all));
        threads.push(all);
    }
    let options = VmcoreOptions {
        threads,
        level: DumpLevel::new(arguments.dump_level).unwrap_or(DumpLevel::MAX),
        runs: arguments.runs,
    };
    let rows = measure(&source, &options)?;
    let table = |rows: &Vec<_>| table(rows);
    arguments.output.print(&machine, "vmcore", &rows, table)
}
