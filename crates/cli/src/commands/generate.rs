//! Completions and man pages, from the definition of the flags.

use std::path::Path;

use anyhow::Context;
use clap_complete::Shell;

use super::summary;

/// Prints completions for `shell`.
pub fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut command = crate::definition();
    // The generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "bigiron", &mut script);
    Ok(summary::print(&String::from_utf8_lossy(&script), false)?)
}

/// Writes a man page for the program and each subcommand.
pub fn man_pages(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(crate::definition(), directory))
        .with_context(|| format!("{}: cannot write man pages", directory.display()))
}
