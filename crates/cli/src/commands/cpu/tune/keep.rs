//! `bigiron cpu tune keep`.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bigiron_cpu::tune::Watch;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::apply::again;
use super::system::{read_rules, running_kernel, tuner};
use crate::tell::{print, tell};

/// Time to wait for another command that changes sched/verbose; the next check tries again
/// soon.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum number of checks to wait for the end of a series of rebuilds, while CPUs go offline
/// one after another. A value set earlier would be lost at once, and since 6.4 setting it makes
/// the kernel create the files of all CPUs each time.
const MAX_WAITS: u32 = 60;

/// `bigiron cpu tune keep`.
#[derive(Debug, Args)]
pub struct KeepArguments {
    /// File of rules, as written by `save`; reread on SIGHUP
    file: PathBuf,
    /// Milliseconds between checks for a rebuild
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    every: u64,
}

/// Runs until a signal ends it.
pub fn run(arguments: &KeepArguments) -> anyhow::Result<()> {
    let mut rules = read_rules(&arguments.file)?;
    let running = running_kernel()?;
    let tuner = tuner(LOCK_TIMEOUT, "bigiron cpu tune keep");
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot catch signals")?;
    let (sender, received) = mpsc::channel();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if sender.send(signal).is_err() {
                    break;
                }
            }
        })
        .context("cannot start a thread")?;
    let mut watch = Watch::default();
    watch.look(&running)?;
    // Last failure, which is reported once, and retried.
    let mut failure: Option<String> = None;
    // True if rules have to be applied, and the number of checks for which this was postponed.
    let mut due = true;
    let mut waits = 0;
    loop {
        let now = match watch.look(&running) {
            Ok(true) if waits < MAX_WAITS => {
                (due, waits) = (true, waits + 1);
                failure.clone()
            }
            Ok(built) if built || due || failure.is_some() => {
                (due, waits) = (false, 0);
                let applied = again(&rules, &running, &tuner);
                print(&applied.text)?;
                applied.failure
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(text) = now.as_ref().filter(|_| now != failure) {
            tell!("bigiron: {text}; retrying");
        }
        failure = now;
        match received.recv_timeout(Duration::from_millis(arguments.every)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(SIGHUP) => match read_rules(&arguments.file) {
                Ok(read) => (rules, due) = (read, true),
                Err(error) => tell!("bigiron: {error:#}; the rules are unchanged"),
            },
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
