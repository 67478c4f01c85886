//! The `bigiron` program.

mod aliases;
mod arguments;
mod attempts;
mod background;
mod bus_error;
mod command_line;
mod commands;
#[cfg(feature = "inspect")]
mod debug_info;
mod domain;
mod erase;
mod errors;
#[cfg(all(feature = "inspect", feature = "retention"))]
mod fingerprint;
#[cfg(feature = "mount")]
mod fuse;
mod makedumpfile;
mod memory_limit;
#[cfg(feature = "objects")]
mod objects;
mod online_cpus;
#[cfg(any(feature = "inspect", feature = "objects"))]
mod passing;
#[cfg(feature = "plan")]
mod plan;
mod progress;
#[cfg(feature = "plan")]
mod ram_dump;
#[cfg(feature = "report")]
mod report;
mod report_first;
#[cfg(any(feature = "inspect", feature = "objects"))]
mod resolver;
mod rules;
mod sandbox;
mod savecore;
mod signals;
mod size;
mod source;
mod subject;
mod summary;
mod tell;
mod then_boot;
mod timeout;
mod vmlinux;
mod watchdog;

use std::process::ExitCode;

use clap::Parser;

use command_line::{Arguments, Command};
use errors::FAILED;

fn main() -> ExitCode {
    // Before the command line is parsed: the reaper must start within a millisecond.
    if let Some(code) = aliases::run() {
        return ExitCode::from(code);
    }
    let arguments = Arguments::parse();
    if let Err(error) = arguments.check_outputs() {
        error.exit();
    }
    // `bigiron diff` distinguishes "different" (1) from "cannot be compared".
    let code = match arguments.command {
        Command::Diff(_) => commands::diff::CANNOT_COMPARE,
        #[cfg(feature = "plan")]
        Command::Plan(_) => commands::plan::CANNOT_JUDGE,
        _ => FAILED,
    };
    run(arguments.command).unwrap_or_else(|error| errors::report(&error, code))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Dump(arguments) => commands::dump::run(&arguments)?,
        Command::Live(arguments) => commands::live::run(&arguments)?,
        Command::Verify(arguments) => commands::verify::run(&arguments)?,
        Command::Diff(arguments) => return commands::diff::run(&arguments),
        #[cfg(feature = "inspect")]
        Command::Info(arguments) => commands::info::run(&arguments)?,
        #[cfg(feature = "inspect")]
        Command::Diagnose(arguments) => return commands::diagnose::run(&arguments),
        #[cfg(feature = "inspect")]
        Command::Sym(arguments) => commands::names::symbols(&arguments)?,
        #[cfg(feature = "inspect")]
        Command::Type(arguments) => commands::names::types(&arguments)?,
        #[cfg(feature = "inspect")]
        Command::Read(arguments) => commands::read::run(&arguments)?,
        #[cfg(feature = "mount")]
        Command::Mount(arguments) => commands::mount::run(&arguments)?,
        #[cfg(feature = "report")]
        Command::Report(arguments) => commands::report::run(&arguments)?,
        #[cfg(feature = "inspect")]
        Command::Rules(arguments) => commands::rules::run(&arguments)?,
        #[cfg(feature = "triage")]
        Command::Triage(arguments) => return commands::triage::run(&arguments),
        Command::Dmesg(arguments) => commands::dmesg::run(&arguments)?,
        Command::Save(arguments) => commands::save::run(&arguments)?,
        #[cfg(feature = "plan")]
        Command::Plan(arguments) => return commands::plan::run(&arguments),
        #[cfg(feature = "plan")]
        Command::Setup(arguments) => return commands::setup::run(&arguments),
        #[cfg(feature = "inspect")]
        Command::Cpu(arguments) => commands::cpu::run(&arguments)?,
        #[cfg(feature = "memory")]
        Command::Mem(arguments) => return commands::mem::run(&arguments.command),
        #[cfg(feature = "bench")]
        Command::Bench(arguments) => commands::bench::run(&arguments)?,
        #[cfg(feature = "generate")]
        Command::Completions { shell } => commands::generate::completions(shell)?,
        #[cfg(feature = "generate")]
        Command::Man { directory } => commands::generate::man_pages(&directory)?,
    }
    Ok(ExitCode::SUCCESS)
}
