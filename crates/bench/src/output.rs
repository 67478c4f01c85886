//! The output of a measurement's results.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::machine::Machine;
use crate::results::save;

/// Options for the output of results.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Also save the raw results in this directory
    #[arg(long, value_name = "DIRECTORY")]
    results: Option<PathBuf>,
}

impl OutputArguments {
    /// Prints `results`, as JSON or as the table returned by `table`, and saves them as
    /// `DATE-NAME.json` if a directory was given.
    pub fn print<T: Serialize>(
        &self,
        machine: &Machine,
        name: &str,
        results: &T,
        table: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        if let Some(directory) = &self.results {
            let path = save(directory, machine, name, results)?;
            // The measurement is complete; a closed standard error does not undo it.
            let _ = writeln!(io::stderr(), "bigiron: raw results: {}", path.display());
        }
        let text = if self.json {
            serde_json::to_string_pretty(results)?
        } else {
            format!("{}\n{}", machine.line(), table(results))
        };
        Ok(print(&text)?)
    }
}

/// Prints `text` to standard output. A pipe closed by its reader is not an error.
pub fn print(text: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
