//! The commands: options and output.

mod adaptive;
mod bars;
mod cache;
mod chunk;
mod filter;
mod large_core;
mod large_vmdump;
mod memory;
mod optimizations;
mod read;
mod stripes;
mod struct_pages;
mod trial;

use clap::{Parser, Subcommand};

/// Measures parts of bigiron, for its developers
#[derive(Debug, Parser)]
#[command(name = "bigiron-bench", version, max_term_width = 100)]
pub struct Arguments {
    /// The measurement.
    #[command(subcommand)]
    pub command: Command,
}

/// The measurement.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare adaptive compression with every fixed one, on slow and fast disks
    Adaptive(adaptive::AdaptiveArguments),
    /// Draw a result that contains the description of a picture as stacked bars
    Bars(bars::BarsArguments),
    /// Measure the page cache: none, 8 pages and the default, with few and with many lookups
    Cache(cache::CacheArguments),
    /// Measure vmdump chunks of 64 KiB to 4 MiB: size, speed, and the cost of reading a page
    Chunk(chunk::ChunkArguments),
    /// Measure the filter in struct pages per second, next to a plain sum of the same bytes
    Filter(filter::FilterArguments),
    /// Write an ELF core with the struct pages and the kept pages of a generated machine
    LargeCore(large_core::LargeCoreArguments),
    /// Make a sparse vmdump of any size, whose index is complete
    LargeVmdump(large_vmdump::LargeVmdumpArguments),
    /// Compare the peak memory of dumps of generated machines with the memory allowed
    Memory(memory::MemoryArguments),
    /// Measure dumps with all optimisations, and without each of them
    Optimizations(optimizations::OptimizationsArguments),
    /// Measure random reads of a dump through the cache, next to the bare codec
    Read(read::ReadArguments),
    /// Measure dumps striped over several files on simulated disks
    Stripes(stripes::StripesArguments),
    /// Compare dumps with and without the struct pages of excluded pages, of generated machines
    StructPages(struct_pages::StructPagesArguments),
}

/// Runs a measurement and prints its table.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Adaptive(arguments) => adaptive::run(arguments),
        Command::Bars(arguments) => bars::run(arguments),
        Command::Cache(arguments) => cache::run(arguments),
        Command::Chunk(arguments) => chunk::run(arguments),
        Command::Filter(arguments) => filter::run(arguments),
        Command::LargeCore(arguments) => large_core::run(arguments),
        Command::LargeVmdump(arguments) => large_vmdump::run(arguments),
        Command::Memory(arguments) => memory::run(arguments),
        Command::Optimizations(arguments) => optimizations::run(arguments),
        Command::Read(arguments) => read::run(arguments),
        Command::Stripes(arguments) => stripes::run(arguments),
        Command::StructPages(arguments) => struct_pages::run(arguments),
    }
}
