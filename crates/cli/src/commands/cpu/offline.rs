//! `bigiron cpu offline`.

use anyhow::bail;
use bigiron_cpu::CpuList;
use bigiron_cpu::hotplug::Plan;
use clap::Args;

use super::hotplug::{self, HotplugArguments};

/// `bigiron cpu offline`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct OfflineArguments {
    /// CPUs, such as 4-7,12
    cpus: CpuList,
    /// How.
    #[command(flatten)]
    how: HotplugArguments,
}

const HELP: &str = "\
While CPUs go, RCU's grace periods are expedited and the kernel's files of scheduling domains are off; both are put back \
whatever happens. Ctrl-C ends it after the CPU in hand. CPUs that fail are told, and the rest go.

Examples:
  bigiron cpu offline 4-7 --dry-run
  bigiron cpu offline 4-7";

/// Takes CPUs offline.
pub fn run(arguments: &OfflineArguments) -> anyhow::Result<()> {
    if arguments.cpus.is_empty() {
        bail!("no CPUs are named; expected a list such as 4-7,12");
    }
    let command = format!("bigiron cpu offline {}", arguments.cpus);
    hotplug::run(&arguments.how, command, |place, cpus| {
        Plan::offline(place, cpus, &arguments.cpus)
    })
}
