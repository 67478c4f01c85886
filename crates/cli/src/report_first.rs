//! `--report-first` and `--report-only`: what is known of a crash is written before any of its pages is
//! filtered.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_dump::{FileOutput, Output, first_report};
use bigiron_kernel::Kernel;
use clap::Args;

use crate::tell::{is_closed_pipe, tell};

/// Size of a report, in bytes, at most.
const MAX_BYTES: usize = 1 << 20;

/// Options of reports.
#[derive(Clone, Debug, Args)]
pub struct ReportArguments {
    /// Before the dump, write what is known of the crash to FILE: a line of JSON, and the kernel log
    ///
    /// If it cannot be written, a warning tells so, and the dump is made.
    #[arg(long, value_name = "FILE", conflicts_with = "encrypt")]
    pub report_first: Option<PathBuf>,
    /// Write that report to OUTPUT, and no dump
    #[arg(long)]
    #[arg(conflicts_with_all = ["report_first", "encrypt", "split", "stripe", "then", "then_boot"])]
    pub report_only: bool,
}

impl ReportArguments {
    /// Writes the report that precedes a dump; a failure is a warning.
    pub fn precede(&self, kernel: Option<&Kernel>, overwrite: bool) {
        let Some(path) = &self.report_first else {
            return;
        };
        if let Err(error) = write(kernel, path, overwrite) {
            tell!("bigiron: warning: the report is not written: {error:#}");
        }
    }
}

/// Writes the report of a kernel's crash to a file, or to standard output for `-`.
///
/// # Errors
/// There is no kernel, or the report cannot be written.
pub fn write(kernel: Option<&Kernel>, path: &Path, overwrite: bool) -> anyhow::Result<()> {
    let kernel = kernel.context("the source has no kernel that is understood")?;
    let report = first_report(kernel, MAX_BYTES);
    if path.as_os_str() == "-" {
        return match io::stdout().write_all(&report) {
            Err(error) if !is_closed_pipe(&error) => Err(error).context("standard output"),
            _ => Ok(()),
        };
    }
    let file = FileOutput::create(path, overwrite)?;
    let written = file.write_at(0, &report).and_then(|()| file.finish());
    written.map_err(|error| {
        file.discard();
        anyhow::Error::from(error).context(path.display().to_string())
    })
}
