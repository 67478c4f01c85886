//! `bigiron-bench large-vmdump`: makes a sparse vmdump of any size.

use std::fs::File;
use std::path::PathBuf;

use anyhow::Context;
use bigiron_bench::large_vmdump;
use bigiron_helpers::parse_size;
use bigiron_kernel::Source;
use clap::Args;

/// `bigiron-bench large-vmdump`.
#[derive(Debug, Args)]
pub struct LargeVmdumpArguments {
    /// Size of the file
    #[arg(long, default_value = "100G", value_parser = parse_size)]
    size: u64,
    /// A vmdump of one file in zstd
    vmdump: PathBuf,
    /// The file to create
    output: PathBuf,
}

/// Writes the file.
pub fn run(arguments: &LargeVmdumpArguments) -> anyhow::Result<()> {
    let name = arguments.vmdump.display();
    let source = Source::open(std::slice::from_ref(&arguments.vmdump))?;
    let small = source.memory().extensions().vmdump;
    let small = small.with_context(|| format!("{name}: not a vmdump"))?;
    let output = File::create_new(&arguments.output)
        .with_context(|| format!("{}: cannot create the file", arguments.output.display()))?;
    large_vmdump::write(small.file(), arguments.size, &output).with_context(|| format!("{name}"))
}
