//! The program as `savecore`: the command line of Solaris' savecore, on the engine of `bigiron
//! save`.
//!
//! As on Solaris, `-f FILE` expands a compressed dump, and without it the configured dump
//! device is used.

mod live;
mod settings;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use bigiron_dump::SaveOptions;
use bigiron_helpers::{MemoryBudget, processor_count};

use self::settings::{NAME, Settings, print_log_path};
use crate::commands::save::{DEFAULT_DIRECTORY, Work, perform};
use crate::commands::save_outcome::Outcome;
use crate::tell::tell;

/// File that configures the device and the directory, as `DEVICE=` and `DIR=`: the settings of
/// the service that runs `bigiron save` at boot.
const CONFIGURATION: &str = "/etc/default/bigiron";
const FAILED: u8 = 1;
const USAGE: u8 = 2;

pub fn run_as_alias(arguments: Vec<OsString>) -> u8 {
    let settings = match Settings::parse(arguments) {
        Ok(settings) => settings,
        Err(error) => {
            tell!("{NAME}: {error}\nusage: {NAME} [-L | -r] [-vd] [-f dumpfile] [directory]");
            return USAGE;
        }
    };
    match save(&settings) {
        Ok(()) => 0,
        Err(error) => {
            tell!("{NAME}: {}", crate::errors::message(&error));
            crate::signals::exit_code(&error).unwrap_or(FAILED)
        }
    }
}

fn save(settings: &Settings) -> anyhow::Result<()> {
    let configured = fs::read_to_string(CONFIGURATION).unwrap_or_default();
    let directory = settings
        .directory
        .clone()
        .or_else(|| configured_path(&configured, "DIR"))
        .unwrap_or_else(|| DEFAULT_DIRECTORY.into());
    if settings.live {
        return live::save(settings, &directory);
    }
    let source = settings
        .file
        .clone()
        .or_else(|| configured_path(&configured, "DEVICE"))
        .ok_or_else(|| {
            anyhow::anyhow!("no dump device; specify it with -f, or as DEVICE= in {CONFIGURATION}")
        })?;
    let work = Work {
        sources: vec![source.clone()],
        options: SaveOptions {
            directory,
            expand: settings.file.is_some(),
            again: settings.disregard_mark,
            keep_mark: settings.read_only,
            identity: None,
            threads: processor_count(),
            memory: MemoryBudget::from_free_memory(),
        },
        accepts_loss: false,
        log: true,
        shows_progress: settings.verbose,
    };
    loop {
        let outcome = perform(&work)?;
        if settings.verbose {
            print_outcome(&outcome, &source);
        }
        outcome.check_loss()?;
        if !outcome.leads_to_another() {
            return Ok(());
        }
    }
}

fn print_outcome(outcome: &Outcome, source: &Path) {
    let source = source.display();
    match outcome {
        Outcome::Nothing => tell!("{NAME}: {source}: dump already processed"),
        Outcome::Empty { report, .. } => {
            tell!("{NAME}: {source}: no part of the dump was written");
            if let Some(report) = report {
                tell!("{NAME}: saved its report in {}", report.display());
            }
        }
        Outcome::Saved { saved, log, .. } => {
            let path = saved.path.display();
            tell!("{NAME}: saved system crash dump of {source} in {path}");
            print_log_path(log.as_deref());
        }
    }
}

/// Returns the value of `NAME=VALUE` in a file of such lines.
fn configured_path(text: &str, name: &str) -> Option<PathBuf> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
    let value = value.trim().trim_matches('"');
    (!value.is_empty()).then(|| value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_read_from_the_configuration() {
        let text = "# comment\nOPTIONS=yes\nDEVICE=/dev/vdb\nDIR=\n";
        assert_eq!(configured_path(text, "DEVICE"), Some("/dev/vdb".into()));
        assert_eq!(configured_path(text, "DIR"), None);
    }
}
