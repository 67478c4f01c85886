//! `bigiron cpu restore`, and the watchdog that usually makes it unnecessary.

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

/// Time to wait for an active watchdog to finish.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit code for an invalid command line.
const USAGE: u8 = 2;

/// `bigiron cpu restore`.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// Root of the kernel's files.
    #[command(flatten)]
    root: RootArguments,
}

/// Restores the settings left by killed commands.
pub fn run(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let undone = restore(&arguments.root.sys_root(), LOCK_TIMEOUT)?;
    let lines = lines(&undone);
    print(&match lines.is_empty() {
        true => "nothing to restore\n".to_owned(),
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

/// Waits for the end of the command that started this process, and restores its settings.
fn watch(root: &SysRoot) -> anyhow::Result<()> {
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        flag::register(signal, Arc::default()).context("cannot catch signals")?;
    }
    for line in lines(&serve(root)?) {
        tell!("bigiron: {line}");
    }
    Ok(())
}

fn lines(undone: &[Undone]) -> Vec<&str> {
    let lines = undone.iter().filter_map(|what| match what {
        Undone::Yes(what) | Undone::Left(what) => Some(what.as_str()),
        Undone::Already => None,
    });
    lines.collect()
}
