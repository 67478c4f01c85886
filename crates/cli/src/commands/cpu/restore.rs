//! `bigiron cpu restore`, and the watchdog that makes it needless.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bigiron_cpu::hotplug::SysRoot;
use bigiron_cpu::hotplug::settings::{Undone, restore, serve};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use super::hotplug::{ROOT, RootArguments};
use crate::errors;
use crate::tell::{print, tell};

/// Time that a watchdog at work is given to finish.
const PATIENCE: Duration = Duration::from_secs(5);
/// Exit code for an invalid command line.
const USAGE: u8 = 2;

/// `bigiron cpu restore`.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// Where the kernel's files are.
    #[command(flatten)]
    root: RootArguments,
}

/// Puts back what killed commands left.
pub fn run(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let undone = restore(&arguments.root.place(), PATIENCE)?;
    let lines = lines(&undone);
    print(&match lines.is_empty() {
        true => "nothing to put back\n".to_owned(),
        false => lines.join("\n") + "\n",
    })
}

/// Runs the watchdog process with the arguments after its name; returns the exit code.
pub fn run_watchdog(arguments: &[OsString]) -> u8 {
    let [option, root] = arguments else {
        return USAGE;
    };
    if option != ROOT {
        return USAGE;
    }
    match watch(&SysRoot::at(root)) {
        Ok(()) => 0,
        Err(error) => {
            tell!("bigiron: {}", errors::message(&error));
            errors::FAILED
        }
    }
}

/// Waits for the end of the command that started this one.
fn watch(place: &SysRoot) -> anyhow::Result<()> {
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        flag::register(signal, Arc::default()).context("cannot catch signals")?;
    }
    for line in lines(&serve(place)?) {
        tell!("bigiron: {line}");
    }
    Ok(())
}

fn lines(undone: &[Undone]) -> Vec<&str> {
    let told = undone.iter().filter_map(|what| match what {
        Undone::Yes(what) | Undone::Left(what) => Some(what.as_str()),
        Undone::Already => None,
    });
    told.collect()
}
