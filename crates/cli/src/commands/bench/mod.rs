//! `bigiron bench`: measures on the machine at hand.

pub mod adaptive;
pub mod cache;
pub mod chunk;
pub mod dump;
pub mod filter;
pub mod memory;
pub mod optimizations;
pub mod read;
pub mod scale;
mod scale_report;
pub mod stripes;
pub mod vmcore;

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
    /// Chunks of a vmdump from 64 KiB to 4 MiB: size, speed, and the cost of reading a page
    Chunk(chunk::ChunkArguments),
    /// The filter: struct pages a second, beside the bare memory
    Filter(filter::FilterArguments),
    /// Dumps of a source by bigiron, makedumpfile and compressors in turns, and the limit
    Dump(dump::DumpBenchArguments),
    /// The memory that dumps of machines of any size take, against what is allowed
    Memory(memory::MemoryArguments),
    /// Adaptive compression on slow and fast disks, beside every fixed one
    Adaptive(adaptive::AdaptiveArguments),
    /// What each optimisation brings: dumps with all of them, and without each
    Optimizations(optimizations::OptimizationsArguments),
    /// Reading a dump here and there: through the cache, beside the bare codec
    Read(read::ReadArguments),
    /// A model of the pipeline: held against dumps made here, against history, and for 32 TB
    Scale(scale::ScaleArguments),
    /// Dumps striped over several files, each written as slowly: how much faster they are
    Stripes(stripes::StripesArguments),
    /// How fast a source can be read: mmap beside read, by helpers, the dump going nowhere
    Vmcore(vmcore::VmcoreArguments),
}

/// Runs a measurement and prints its table.
pub fn run(arguments: &BenchArguments) -> anyhow::Result<()> {
    match &arguments.what {
        BenchCommand::Cache(arguments) => cache::run(arguments),
        BenchCommand::Chunk(arguments) => chunk::run(arguments),
        BenchCommand::Filter(arguments) => filter::run(arguments),
        BenchCommand::Dump(arguments) => dump::run(arguments),
        BenchCommand::Memory(arguments) => memory::run(arguments),
        BenchCommand::Adaptive(arguments) => adaptive::run(arguments),
        BenchCommand::Optimizations(arguments) => optimizations::run(arguments),
        BenchCommand::Read(arguments) => read::run(arguments),
        BenchCommand::Scale(arguments) => scale::run(arguments),
        BenchCommand::Stripes(arguments) => stripes::run(arguments),
        BenchCommand::Vmcore(arguments) => vmcore::run(arguments),
    }
}
