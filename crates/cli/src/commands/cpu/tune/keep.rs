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
use super::{read, running, tuner};
use crate::tell::{print, tell};

/// For another command that changes sched/verbose: it looks again soon anyway.
const PATIENCE: Duration = Duration::from_millis(100);

/// While CPUs go one after the other, it waits this often for an end of it: what is set would be
/// forgotten at once, and since 6.4 setting it makes the kernel's files of all CPUs each time.
const MAX_WAITS: u32 = 60;

/// `bigiron cpu tune keep`.
#[derive(Debug, Args)]
pub struct KeepArguments {
    /// The rules, as `save` writes them; read anew at SIGHUP
    file: PathBuf,
    /// Look whether the domains were built anew every so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    every: u64,
}

/// Stays until a signal comes.
pub fn run(arguments: &KeepArguments) -> anyhow::Result<()> {
    let mut rules = read(&arguments.file)?;
    let running = running()?;
    let tuner = tuner(PATIENCE, "bigiron cpu tune keep");
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
    // What went wrong last: it is told once, and tried again.
    let mut failure: Option<String> = None;
    // Whether rules are to be applied, and how often that was put off.
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
            tell!("bigiron: {text}; it is tried again");
        }
        failure = now;
        match received.recv_timeout(Duration::from_millis(arguments.every)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(SIGHUP) => match read(&arguments.file) {
                Ok(read) => (rules, due) = (read, true),
                Err(error) => tell!("bigiron: {error:#}; the rules stay as they are"),
            },
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
