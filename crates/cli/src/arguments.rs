//! The command line. Completions and man pages are made from it too.

use std::num::NonZeroU64;
use std::path::PathBuf;

use bigiron_dump::{DumpOptions, Optimizations, OutputFormat, PageCompression};
use bigiron_helpers::{MemoryBudget, processor_count};
use bigiron_kernel::{DumpLevel, IoMethod, PhysicalMemory};
use clap::{Args, Parser, Subcommand, ValueEnum};

#[cfg(feature = "bench")]
use crate::commands::bench::BenchArguments;
use crate::commands::dmesg::DmesgArguments;
use crate::size;

/// Crash dumps of large Linux machines, filtered, compressed and written in parallel.
#[derive(Debug, Parser)]
#[command(
    name = "bigiron",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a filtered, compressed dump of a crashed kernel's memory
    Dump(DumpArguments),
    /// Read every page of a dump, and compare it with what it was made from
    Verify(VerifyArguments),
    /// Print the kernel log that is in a dump
    Dmesg(DmesgArguments),
    /// Measure on this machine
    #[cfg(feature = "bench")]
    Bench(BenchArguments),
    /// Print completions for a shell
    #[cfg(feature = "generate")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a directory
    #[cfg(feature = "generate")]
    Man {
        /// The directory
        directory: PathBuf,
    },
}

/// How a source is read and how much is used for it.
#[derive(Clone, Debug, Args)]
pub struct SourceArguments {
    /// VMCOREINFO as a text file, in place of the one in the source
    #[arg(long, value_name = "FILE")]
    pub vmcoreinfo: Option<PathBuf>,
    /// How the source is read: mmap for /proc/vmcore, read for other files
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    pub io: Io,
    /// Pages of the source kept for address translation; 0 for none
    #[arg(long, value_name = "N", default_value_t = PhysicalMemory::DEFAULT_CACHE_PAGES as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub cache_pages: u32,
}

/// `bigiron dump`.
#[derive(Debug, Args)]
#[command(override_usage = "bigiron dump [OPTIONS] <SOURCE>... <OUTPUT>")]
#[command(after_long_help = DUMP_HELP)]
pub struct DumpArguments {
    /// What to dump (/proc/vmcore, an ELF core, a kdump-compressed or flattened dump, all
    /// parts of a split one, or - for standard input), then the file to make (- for
    /// standard output)
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "OUTPUT"])]
    pub paths: Vec<PathBuf>,
    /// What is left out, a sum: 1 zero pages, 2 page cache without private data, 4 all page
    /// cache, 8 user memory, 16 free memory
    #[arg(short = 'd', long, value_name = "0..31", default_value_t = 31)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=31))]
    pub dump_level: u8,
    /// The format of the output
    #[arg(short, long, default_value = "kdump")]
    pub format: Format,
    /// none, zlib, lzo, snappy or zstd, with a level where it has one: zstd:3; or adaptive: as
    /// fast or as strong as keeps processors and disk busy
    #[arg(short, long, value_name = "CODEC[:LEVEL]", default_value = "zstd")]
    pub compress: PageCompression,
    /// Helper threads [default: one for each CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// CPUs that are off line are brought up first, to help: auto for /proc/vmcore, where the kernel
    /// was not started with maxcpus=
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub online_cpus: OnlineCpus,
    /// Memory that the helpers may take together, like 64M [default: a quarter of what is free]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub memory_limit: Option<u64>,
    /// Bytes a second that are written at most, like 50M, to leave some of a disk or of a network
    /// to others
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub write_limit: Option<u64>,
    /// Seconds in which nothing moves until standard error says what it waits for
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "10",
        hide_short_help = true
    )]
    pub stall_warning: NonZeroU64,
    /// Do without some of what makes dumps faster, to see what it brings
    #[arg(
        long,
        value_name = "WHAT",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub without: Vec<Without>,
    /// How the source is read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// Replace OUTPUT if it is there already
    #[arg(long)]
    pub overwrite: bool,
    /// Print the summary as JSON on standard output (standard error with OUTPUT -)
    #[arg(long)]
    pub json: bool,
    /// Print the page cache's hits and misses, and lost pages, too
    #[arg(long)]
    pub stats: bool,
    /// Print nothing but errors and warnings
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
}

const DUMP_HELP: &str = "\
Exit status: 0 the dump was made; 1 it was not, and standard error says why; 2 the command \
line is wrong; 129, 130 or 143 SIGHUP, SIGINT or SIGTERM ended it.

What the source cannot give does not stop a dump: pages that cannot be read are marked as lost, \
a warning counts them and names the first, and the dump is marked incomplete, as it is when the \
source itself is cut or marked so. `bigiron verify OUTPUT` then exits with 1.

What was written before an interruption or a failed write stays in OUTPUT.incomplete, is marked \
incomplete, and can be read: each page is there or marked as lost. In an ELF core, which cannot \
mark pages, those that were not copied yet are zeros.

Examples:
  bigiron dump /proc/vmcore /var/crash/vmcore
  bigiron dump -d 1 -c zstd:3 vmcore.elf vmcore.kdump
  bigiron dump /proc/vmcore - | ssh host 'cat > vmcore.flat'
  bigiron dump part1 part2 whole.kdump";

/// `bigiron verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// The dump; all files of a split one
    #[arg(required = true)]
    pub dump: Vec<PathBuf>,
    /// What it was made from: every page must be equal
    #[arg(long, value_name = "SOURCE")]
    pub against: Option<PathBuf>,
    /// Helper threads [default: one for each CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// [`IoMethod`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Io {
    /// The better one
    Auto,
    /// Map the file
    Mmap,
    /// Read the file
    Read,
}

impl From<Io> for IoMethod {
    fn from(io: Io) -> Self {
        match io {
            Io::Auto => Self::Auto,
            Io::Mmap => Self::Mmap,
            Io::Read => Self::Read,
        }
    }
}

/// [`OutputFormat`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// kdump-compressed; flattened if it goes to standard output
    Kdump,
    /// kdump-compressed as a stream, for pipes
    Flattened,
    /// ELF core, uncompressed
    Elf,
}

impl From<Format> for OutputFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Kdump => Self::Kdump,
            Format::Flattened => Self::Flattened,
            Format::Elf => Self::Elf,
        }
    }
}

/// Whether a dump brings CPUs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnlineCpus {
    /// In a capture kernel that was not told to leave them alone
    Auto,
    /// Whatever the source is
    Always,
    /// The CPUs stay as they are
    Never,
}

/// A part of [`Optimizations`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Without {
    /// Store every page, whether an equal one is there already or not
    EqualPages,
    /// Try to compress every page
    Incompressible,
    /// Look at every struct page by itself
    ScanBlocks,
}

/// Threads when nothing else is said.
pub fn threads(wanted: Option<u16>) -> usize {
    wanted.map_or_else(processor_count, usize::from)
}

impl DumpArguments {
    /// The sources and the output.
    pub fn split_paths(&self) -> (&[PathBuf], &PathBuf) {
        let (output, sources) = match self.paths.split_last() {
            Some(parts) => parts,
            None => unreachable!("the parser asks for two paths"),
        };
        (sources, output)
    }

    /// The options of the engine.
    pub fn options(&self) -> DumpOptions {
        DumpOptions {
            level: DumpLevel::new(self.dump_level).unwrap_or(DumpLevel::MAX),
            format: self.format.into(),
            compression: self.compress,
            threads: threads(self.threads),
            memory: self
                .memory_limit
                .map_or_else(MemoryBudget::from_free_memory, MemoryBudget::of),
            io: self.source.io.into(),
            overwrite: self.overwrite,
            write_limit: self.write_limit.and_then(NonZeroU64::new),
            size_limit: None,
            discard_if_full: false,
            optimizations: Optimizations {
                equal_pages: !self.without.contains(&Without::EqualPages),
                incompressible: !self.without.contains(&Without::Incompressible),
                scan_blocks: !self.without.contains(&Without::ScanBlocks),
            },
        }
    }
}
