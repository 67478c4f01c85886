//! `bigiron cpu smt`.

use bigiron_cpu::hotplug::{Plan, Threads};
use clap::Args;

use super::hotplug::{self, HotplugArguments};

/// `bigiron cpu smt`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct SmtArguments {
    /// off: one thread for each core; on: all; or how many
    #[arg(value_name = "off|on|N")]
    threads: Threads,
    /// How.
    #[command(flatten)]
    how: HotplugArguments,
}

const HELP: &str = "\
Threads go offline one by one, and then smt/control is set, so that the kernel keeps it so. `on` sets smt/control first: \
where it was off, the kernel brings all CPUs up in one call that nothing interrupts.";

/// Leaves each core so many threads.
pub fn run(arguments: &SmtArguments) -> anyhow::Result<()> {
    let threads = match arguments.threads {
        Threads::Off => "off".to_owned(),
        Threads::On => "on".to_owned(),
        Threads::Number(number) => number.to_string(),
    };
    let command = format!("bigiron cpu smt {threads}");
    hotplug::run(&arguments.how, command, |place, cpus| {
        Plan::smt(place, cpus, arguments.threads)
    })
}
