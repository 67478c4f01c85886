//! `bigiron-bench large-core`: writes the kept pages of a generated machine.

use std::path::PathBuf;

use anyhow::ensure;
use bigiron_bench::generated::{GeneratedMachine, LARGEST, MachineOptions};
use bigiron_dump::{DumpOptions, DumpOutput, Format, Progress, dump};
use bigiron_helpers::{Stop, parse_size};
use bigiron_kernel::{Kernel, PhysicalMemory};
use clap::Args;

/// `bigiron-bench large-core`.
#[derive(Debug, Args)]
pub struct LargeCoreArguments {
    /// Size of the generated machine
    #[arg(long, default_value = "32G", value_parser = parse_size)]
    size: u64,
    /// The file to create
    output: PathBuf,
}

/// Writes an ELF core of dump level 31, with the struct pages of all memory.
pub fn run(arguments: &LargeCoreArguments) -> anyhow::Result<()> {
    let size = arguments.size;
    ensure!(size <= LARGEST, "the size is larger than {LARGEST} bytes");
    let machine = GeneratedMachine::new(MachineOptions::whole(size));
    let options = DumpOptions::default();
    let pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
    let kernel = Kernel::find_in(&machine, machine.path(), None, options.io, pages)?;
    let output = DumpOutput::file(Format::ELF, arguments.output.clone());
    let (progress, stop) = (Progress::new(), Stop::new());
    dump(&kernel.into(), &output, &options, &progress, &stop)?;
    Ok(())
}
