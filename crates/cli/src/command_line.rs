//! The command line: all commands with their arguments. Completions and man pages are generated from it.

#[cfg(feature = "generate")]
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

#[cfg(feature = "memory")]
use crate::arguments::memory;
use crate::arguments::{DumpArguments, LiveArguments};
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
use crate::commands::verify::VerifyArguments;

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

impl Arguments {
    /// What the parser cannot know of outputs: an error with the usage.
    pub fn check_outputs(&self) -> Result<(), clap::Error> {
        let (name, how) = match &self.command {
            Command::Dump(arguments) => ("dump", &arguments.how),
            Command::Live(arguments) => ("live", &arguments.how),
            _ => return Ok(()),
        };
        let wrong = match &self.command {
            Command::Dump(arguments) if how.parts().is_empty() && arguments.paths.len() < 2 => {
                Some((
                    ErrorKind::TooFewValues,
                    "2 values required for '<SOURCE> <OUTPUT>'",
                ))
            }
            Command::Dump(arguments) if how.has_output(&arguments.paths) => Some((
                ErrorKind::ArgumentConflict,
                "with --split or --stripe there is no OUTPUT: its files are the output, and all \
                 other arguments sources, which are there",
            )),
            _ => how.wrong_split().or_else(|| how.wrong_stripe()),
        };
        let Some((kind, text)) = wrong else {
            return Ok(());
        };
        let mut program = Self::command();
        program.build();
        let command = program.find_subcommand_mut(name);
        Err(command.map_or_else(
            || clap::Error::raw(kind, text),
            |command| command.error(kind, text),
        ))
    }
}
