//! The `bigiron` program.

mod arguments;
mod background;
mod commands;
mod erase;
mod makedumpfile;
mod progress;
mod savecore;
mod signals;
mod size;
mod tell;
mod watchdog;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use tell::tell;

/// A dump was not made or a check failed.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    // Before all else: it is to be there in a millisecond.
    #[cfg(feature = "memory")]
    if bigiron_memory::reaper::requested(std::env::args_os()) {
        let code = bigiron_memory::reaper::serve(std::env::args_os());
        return ExitCode::from(u8::try_from(code).unwrap_or(FAILED));
    }
    #[cfg(feature = "hotplug")]
    if let Some(result) = commands::cpu::watchdog_by_arguments() {
        return match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, FAILED),
        };
    }
    if let Some(code) = commands::dmesg::by_its_other_name() {
        return ExitCode::from(code);
    }
    if let Some(code) = makedumpfile::by_its_other_name() {
        return ExitCode::from(code);
    }
    if let Some(code) = savecore::by_its_other_name() {
        return ExitCode::from(code);
    }
    let arguments = Arguments::parse();
    if let Err(error) = arguments.check_outputs() {
        error.exit();
    }
    // What a comparison ends with where there is nothing to compare is its own.
    let code = match arguments.command {
        Command::Diff(_) => commands::diff::CANNOT_COMPARE,
        _ => FAILED,
    };
    run(arguments.command).unwrap_or_else(|error| failed(&error, code))
}

/// Tells why; a signal's exit code is what a shell expects of the signal.
fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    tell!("bigiron: {}", message(error));
    ExitCode::from(signals::exit_code(error).unwrap_or(code))
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
        Command::Sym(arguments) => commands::names::symbols(&arguments)?,
        #[cfg(feature = "inspect")]
        Command::Type(arguments) => commands::names::types(&arguments)?,
        #[cfg(feature = "inspect")]
        Command::Read(arguments) => commands::read::run(&arguments)?,
        #[cfg(feature = "mount")]
        Command::Mount(arguments) => commands::mount::run(&arguments)?,
        #[cfg(feature = "report")]
        Command::Report(arguments) => commands::report::run(&arguments)?,
        Command::Dmesg(arguments) => commands::dmesg::run(&arguments)?,
        Command::Save(arguments) => commands::save::run(&arguments)?,
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

/// An error with its causes, as far as they are not in its own text yet.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The definition of all flags, for completions and man pages.
#[cfg(feature = "generate")]
fn definition() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}
