//! The `bigiron` program.

mod arguments;
mod commands;
mod progress;
mod signals;
mod size;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};

/// A dump was not made or a check failed.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Dump(arguments) => commands::dump::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
        Command::Bench(arguments) => commands::bench::run(&arguments),
        Command::Completions { shell } => commands::generate::completions(shell),
        Command::Man { directory } => commands::generate::man_pages(&directory),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A signal's exit code is what a shell expects of the signal.
            let code = signals::exit_code(&error).unwrap_or(FAILED);
            eprintln!("bigiron: {}", message(&error));
            ExitCode::from(code)
        }
    }
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
fn definition() -> clap::Command {
    Arguments::command()
}
