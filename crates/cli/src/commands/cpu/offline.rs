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
    /// CPUs to take offline, such as 4-7,12
    cpus: CpuList,
    /// Hotplug options.
    #[command(flatten)]
    how: HotplugArguments,
}

const HELP: &str = "\
While CPUs go offline, RCU grace periods are expedited, and the kernel's files of scheduler domains are off; both settings \
are always restored. Ctrl-C ends the command after the current CPU. CPUs that fail are reported, and the others still go \
offline.

Examples:
  bigiron cpu offline 4-7 --dry-run
  bigiron cpu offline 4-7";

/// Takes CPUs offline.
pub fn run(arguments: &OfflineArguments) -> anyhow::Result<()> {
    if arguments.cpus.is_empty() {
        bail!("no CPUs are named; expected a list such as 4-7,12");
    }
    let command = format!("bigiron cpu offline {}", arguments.cpus);
    hotplug::run(&arguments.how, command, |root, cpus| {
        Plan::offline(root, cpus, &arguments.cpus)
    })
}
