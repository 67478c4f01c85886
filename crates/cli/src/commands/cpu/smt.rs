//! `bigiron cpu smt`.

use bigiron_cpu::hotplug::{Plan, Threads};
use clap::Args;

use super::hotplug::{self, HotplugArguments};

/// `bigiron cpu smt`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct SmtArguments {
    /// off: one thread per core; on: all; or the number of threads per core
    #[arg(value_name = "off|on|N")]
    threads: Threads,
    /// Hotplug options.
    #[command(flatten)]
    how: HotplugArguments,
}

const HELP: &str = "\
Threads go offline one by one; smt/control is set last, so that the kernel keeps the state. `on` sets smt/control first: \
if it was off, the kernel brings all CPUs online in one call, which cannot be interrupted.";

/// Sets the number of online threads per core.
pub fn run(arguments: &SmtArguments) -> anyhow::Result<()> {
    let threads = match arguments.threads {
        Threads::Off => "off".to_owned(),
        Threads::On => "on".to_owned(),
        Threads::Number(number) => number.to_string(),
    };
    let command = format!("bigiron cpu smt {threads}");
    hotplug::run(&arguments.how, command, |root, cpus| {
        Plan::smt(root, cpus, arguments.threads)
    })
}
