//! The command line: all commands with their arguments. Completions and man pages are generated
//! from it.

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
#[cfg(feature = "inspect")]
use crate::commands::diagnose::DiagnoseArguments;
use crate::commands::diff::DiffArguments;
use crate::commands::dmesg::DmesgArguments;
#[cfg(feature = "inspect")]
use crate::commands::info::InfoArguments;
#[cfg(feature = "mount")]
use crate::commands::mount::MountArguments;
#[cfg(feature = "inspect")]
use crate::commands::names::{SymbolArguments, TypeArguments};
#[cfg(feature = "plan")]
use crate::commands::plan::PlanArguments;
#[cfg(feature = "inspect")]
use crate::commands::read::ReadArguments;
#[cfg(feature = "report")]
use crate::commands::report::ReportArguments;
#[cfg(feature = "inspect")]
use crate::commands::rules::RulesArguments;
use crate::commands::save::SaveArguments;
#[cfg(feature = "plan")]
use crate::commands::setup::SetupArguments;
#[cfg(feature = "triage")]
use crate::commands::triage::TriageArguments;
use crate::commands::verify::VerifyArguments;

/// Filter, compress and write crash dumps of Linux in parallel; inspect them; prefault and free
/// large memory; take CPUs offline and online
#[derive(Debug, Parser)]
#[command(
    name = "bigiron",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a filtered, compressed dump of a crashed kernel's memory
    Dump(DumpArguments),
    /// Dump the running kernel
    Live(LiveArguments),
    /// Read every page of a dump, and compare it with its source
    Verify(VerifyArguments),
    /// Compare the pages of two dumps
    Diff(DiffArguments),
    /// Show what a dump contains, and why its kernel stopped
    #[cfg(feature = "inspect")]
    Info(InfoArguments),
    /// Find out why a machine stopped: who waits for whom, which CPU does not answer, what is damaged
    #[cfg(feature = "inspect")]
    Diagnose(DiagnoseArguments),
    /// Look up symbols of the dumped kernel, or the symbol at an address
    #[cfg(feature = "inspect")]
    Sym(SymbolArguments),
    /// Show a type of the dumped kernel, with the offsets of its members
    #[cfg(feature = "inspect")]
    Type(TypeArguments),
    /// Show the dumped kernel's memory, as bytes or as values of its types
    #[cfg(feature = "inspect")]
    Read(ReadArguments),
    /// Mount a dump as files: an ELF core for any debugger, the kernel log, scheduler domains
    #[cfg(feature = "mount")]
    Mount(MountArguments),
    /// Write an HTML page: why the kernel stopped, its memory by use, its log
    #[cfg(feature = "report")]
    Report(ReportArguments),
    /// Check rules for pages, and count the pages that they name
    #[cfg(feature = "inspect")]
    Rules(RulesArguments),
    /// Make one table of the crashes of many machines, from their dumps and logs
    #[cfg(feature = "triage")]
    Triage(TriageArguments),
    /// Print the kernel log in a dump
    Dmesg(DmesgArguments),
    /// Copy a dump from a dump device or a file into a directory after the reboot
    Save(SaveArguments),
    /// Judge the next crash dump of this machine: size and time, memory, room, settings
    #[cfg(feature = "plan")]
    Plan(PlanArguments),
    /// Prepare a machine for crash dumps: memory that survives a reboot by kexec
    #[cfg(feature = "plan")]
    Setup(SetupArguments),
    /// Take CPUs offline and online; show and tune scheduler domains
    #[cfg(feature = "inspect")]
    Cpu(CpuArguments),
    /// Create, lock and free large memory with helper threads, also for unchanged programs
    #[cfg(feature = "memory")]
    Mem(memory::MemoryArguments),
    /// Run benchmarks on this machine
    #[cfg(feature = "bench")]
    Bench(BenchArguments),
    /// Print shell completions
    #[cfg(feature = "generate")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages to a directory
    #[cfg(feature = "generate")]
    Man {
        /// The directory
        directory: PathBuf,
    },
}

impl Arguments {
    /// Checks the constraints on outputs that the parser cannot express; an error includes the
    /// usage.
    pub fn check_outputs(&self) -> Result<(), clap::Error> {
        let (name, how, outputs) = match &self.command {
            Command::Dump(arguments) => ("dump", &arguments.how, arguments.split_paths().1),
            Command::Live(arguments) => ("live", &arguments.how, arguments.outputs()),
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
                "with --split or --stripe there is no OUTPUT: their files are the output, and all \
                 other arguments are sources, which must exist",
            )),
            _ => how.wrong_split().or_else(|| how.wrong_stripe()),
        };
        let wrong = wrong.map(|(kind, text)| (kind, text.to_owned()));
        let wrong = wrong.or_else(|| {
            let format = how
                .compress
                .of_format(how.format_in(outputs), how.chunk_size);
            Some((ErrorKind::ArgumentConflict, format.err()?))
        });
        let Some((kind, text)) = wrong else {
            return Ok(());
        };
        let mut program = Self::command();
        program.build();
        let command = program.find_subcommand_mut(name);
        Err(command.map_or_else(
            || clap::Error::raw(kind, &text),
            |command| command.error(kind, &text),
        ))
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    /// Commands that write a dump, and read it for that.
    const WRITERS: [&str; 3] = ["dump", "live", "save"];
    /// Commands that take dumps and are not for untrusted ones: measurements.
    const EXEMPT: &str = "bench";

    /// Calls `check` with each command that takes a dump or writes one, and its name.
    fn for_each_of_dumps(program: &Command, name: &str, check: &mut dyn FnMut(&Command, &str)) {
        for command in program.get_subcommands() {
            let name = format!("{name} {}", command.get_name()).trim().to_owned();
            let takes_a_dump = command.get_positionals().any(|argument| {
                let help = argument.get_help().map(ToString::to_string);
                help.is_some_and(|help| help.to_lowercase().contains("dump"))
            });
            if takes_a_dump || WRITERS.contains(&name.as_str()) {
                check(command, &name);
            }
            if command.get_name() != EXEMPT {
                for_each_of_dumps(command, &name, check);
            }
        }
    }

    #[test]
    fn every_command_that_takes_a_dump_has_a_time_limit_and_a_sandbox() {
        let program = Arguments::command();
        let mut seen = Vec::new();
        for_each_of_dumps(&program, "", &mut |command, name| {
            let has = |long: &str| {
                let mut all = command.get_arguments();
                all.any(|argument| argument.get_long() == Some(long))
            };
            assert!(has("timeout"), "{name} has no --timeout");
            let writes = WRITERS.contains(&name);
            assert_eq!(has("no-sandbox"), !writes, "{name}: --no-sandbox");
            seen.push(name.to_owned());
        });
        // The descriptions by which they are found.
        for name in ["dump", "save", "verify", "diff", "dmesg"] {
            assert!(seen.iter().any(|seen| seen == name), "{name}: {seen:?}");
        }
        #[cfg(feature = "inspect")]
        for name in ["info", "diagnose", "sym", "type", "read", "cpu domains"] {
            assert!(seen.iter().any(|seen| seen == name), "{name}: {seen:?}");
        }
    }
}
