//! The command line. Completions and man pages are made from it too.

mod making;
#[cfg(feature = "memory")]
pub mod memory;
mod outputs;

use std::path::PathBuf;

use bigiron_helpers::processor_count;
use bigiron_kernel::{IoMethod, PhysicalMemory};
use clap::{Args, Parser, Subcommand, ValueEnum};

#[cfg(feature = "bench")]
use crate::commands::bench::BenchArguments;
#[cfg(feature = "inspect")]
use crate::commands::cpu::CpuArguments;
use crate::commands::diff::DiffArguments;
use crate::commands::dmesg::DmesgArguments;
#[cfg(feature = "inspect")]
use crate::commands::info::InfoArguments;
#[cfg(feature = "mount")]
use crate::commands::mount::MountArguments;
#[cfg(feature = "inspect")]
use crate::commands::names::{SymbolArguments, TypeArguments};
#[cfg(feature = "inspect")]
use crate::commands::read::ReadArguments;
#[cfg(feature = "report")]
use crate::commands::report::ReportArguments;
use crate::commands::save::SaveArguments;
#[cfg(feature = "inspect")]
use crate::size;

pub use making::{DumpArguments, Format, HowArguments, LiveArguments, OnlineCpus};

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
    /// Make a dump of the running kernel
    Live(LiveArguments),
    /// Read every page of a dump, and compare it with what it was made from
    Verify(VerifyArguments),
    /// Say which pages of two dumps differ
    Diff(DiffArguments),
    /// Say what a dump is, of which kernel, and why that stopped
    #[cfg(feature = "inspect")]
    Info(InfoArguments),
    /// Say where a symbol of the dumped kernel is, or what is at an address
    #[cfg(feature = "inspect")]
    Sym(SymbolArguments),
    /// Show a type of the dumped kernel, with the offsets of its members
    #[cfg(feature = "inspect")]
    Type(TypeArguments),
    /// Show what is in the dumped kernel's memory: bytes, or values by their types
    #[cfg(feature = "inspect")]
    Read(ReadArguments),
    /// Show a dump as files: as an ELF core for any debugger, and what is known of it
    #[cfg(feature = "mount")]
    Mount(MountArguments),
    /// Make a page for a browser: why the kernel stopped, where its memory went, its log
    #[cfg(feature = "report")]
    Report(ReportArguments),
    /// Print the kernel log that is in a dump
    Dmesg(DmesgArguments),
    /// Fetch a dump from a dump device or a file into a directory, after the reboot
    Save(SaveArguments),
    /// Show scheduler domains, and say what taking CPUs off line costs
    #[cfg(feature = "inspect")]
    Cpu(CpuArguments),
    /// Make, lock and give back large memory by helpers, also for programs as they are
    #[cfg(feature = "memory")]
    Mem(memory::MemoryArguments),
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

/// How a source is read at random, by those who look at it.
#[derive(Clone, Debug, Args)]
#[cfg_attr(not(feature = "inspect"), derive(Default))]
pub struct SourceArguments {
    /// How it is read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Memory for what is decompressed, so that it need not be again; 0 for little
    #[cfg(feature = "inspect")]
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse_or_zero)]
    pub cache: u64,
}

#[cfg(feature = "inspect")]
impl Default for SourceArguments {
    fn default() -> Self {
        Self {
            input: InputArguments::default(),
            cache: bigiron_kernel::Source::DEFAULT_CACHE,
        }
    }
}

/// How a source is read and how much is used for it.
#[derive(Clone, Debug, Args)]
pub struct InputArguments {
    /// VMCOREINFO as a text file, in place of the one in the source
    #[arg(long, value_name = "FILE")]
    pub vmcoreinfo: Option<PathBuf>,
    /// Secret keys of age, as age-keygen writes them, to read an encrypted source
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// How the source is read: mmap for /proc/vmcore, read for other files
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    pub io: Io,
    /// Pages of the source kept for address translation; 0 for none
    #[arg(long, value_name = "N", default_value_t = PhysicalMemory::DEFAULT_CACHE_PAGES as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub cache_pages: u32,
}

impl Default for InputArguments {
    fn default() -> Self {
        Self {
            vmcoreinfo: None,
            identity: None,
            io: Io::Auto,
            cache_pages: PhysicalMemory::DEFAULT_CACHE_PAGES as u32,
        }
    }
}

/// `bigiron verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// The dump; all files of a split or striped one
    #[arg(required = true)]
    pub dump: Vec<PathBuf>,
    /// Write the index and the end of a vmdump that was cut or whose writer was interrupted
    #[arg(long)]
    pub repair: bool,
    /// What it was made from: every page must be equal. Parts of a split or striped one as A,B,C
    #[arg(long, value_name = "SOURCE")]
    pub against: Option<PathBuf>,
    /// Secret keys of age, to read encrypted dumps
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
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

/// Threads when nothing else is said.
pub fn threads(wanted: Option<u16>) -> usize {
    wanted.map_or_else(processor_count, usize::from)
}
