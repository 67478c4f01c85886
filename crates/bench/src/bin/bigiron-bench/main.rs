//! `bigiron-bench`: measurements for the developers of bigiron.

mod commands;
mod measure;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;

use commands::Arguments;

fn main() -> ExitCode {
    match commands::run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bigiron-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
