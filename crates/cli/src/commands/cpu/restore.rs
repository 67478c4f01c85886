//! `bigiron cpu restore`, and the watchdog that makes it needless.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bigiron_cpu::hotplug::Place;
use bigiron_cpu::hotplug::settings::{Undone, restore, serve};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use super::hotplug::{ROOT, RootArguments, WATCHDOG};
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

/// The watchdog's life, if these are its arguments: as [`super::hotplug::watchdog`] gives them.
pub fn watchdog_by_arguments() -> Option<anyhow::Result<()>> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [cpu, watchdog, option, root] = &arguments[..] else {
        return None;
    };
    let is_it = cpu == "cpu" && watchdog == WATCHDOG && option == ROOT;
    is_it.then(|| watch(&Place::at(root)))
}

/// Waits for the end of the command that started this one.
fn watch(place: &Place) -> anyhow::Result<()> {
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
