//! `bigiron cpu restore`, and the watchdog that makes it needless.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bigiron_cpu::hotplug::settings::{Undone, restore, serve};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use super::hotplug::RootArguments;
use crate::tell::{print, tell};

/// For a watchdog that is at it.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// Waits for the end of the command that started it.
pub fn watch(arguments: &RestoreArguments) -> anyhow::Result<()> {
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        flag::register(signal, Arc::default()).context("cannot catch signals")?;
    }
    for line in lines(&serve(&arguments.root.place())?) {
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
