//! Completions and man pages, generated from the definition of the command line.

use std::path::Path;

use anyhow::Context;
use clap_complete::Shell;

use crate::command_line::Arguments;
use crate::summary;

/// The definition of all commands and options.
fn definition() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}

/// Prints completions for `shell`.
pub fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut command = definition();
    // The generator panics on a write error, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "bigiron", &mut script);
    Ok(summary::print(&String::from_utf8_lossy(&script), false)?)
}

/// Writes a man page for the program and each subcommand.
pub fn man_pages(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(definition(), directory))
        .with_context(|| format!("{}: cannot write man pages", directory.display()))
}
