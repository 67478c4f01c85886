//! `bigiron cpu`: scheduler domains, and what it costs to take CPUs offline.

mod domains;
#[cfg(feature = "hotplug")]
pub mod hotplug;
#[cfg(feature = "hotplug")]
mod list;
#[cfg(all(feature = "hotplug", feature = "mount"))]
mod mount;
#[cfg(feature = "hotplug")]
mod offline;
#[cfg(feature = "hotplug")]
mod online;
#[cfg(feature = "hotplug")]
mod restore;
mod simulate;
#[cfg(feature = "hotplug")]
mod smt;
#[cfg(feature = "hotplug")]
mod temporary;
#[cfg(feature = "hotplug")]
mod tune;

use clap::{Args, Subcommand};
#[cfg(feature = "hotplug")]
pub use hotplug::WATCHDOG;
#[cfg(feature = "hotplug")]
pub use restore::run_watchdog;

/// `bigiron cpu`.
#[derive(Debug, Args)]
pub struct CpuArguments {
    /// What to do.
    #[command(subcommand)]
    command: CpuCommand,
}

#[derive(Debug, Subcommand)]
enum CpuCommand {
    /// Show the scheduler domains of the running kernel, of a dump, or of a machine that is described
    Domains(Box<domains::DomainsArguments>),
    /// Show the scheduler domains as files, in the kernel's own layout, at no cost to hotplug
    #[cfg(all(feature = "hotplug", feature = "mount"))]
    Mount(mount::MountArguments),
    /// Note down what is set of scheduler domains, and put it back after the kernel forgot it
    #[cfg(feature = "hotplug")]
    Tune(tune::TuneArguments),
    /// Show the CPUs, how they lie together, and what holds them online
    #[cfg(feature = "hotplug")]
    List(list::ListArguments),
    /// Take CPUs offline
    #[cfg(feature = "hotplug")]
    Offline(offline::OfflineArguments),
    /// Bring CPUs up
    #[cfg(feature = "hotplug")]
    Online(online::OnlineArguments),
    /// Leave each core one hardware thread, all, or some
    #[cfg(feature = "hotplug")]
    Smt(smt::SmtArguments),
    /// Put back settings that a killed command left changed
    #[cfg(feature = "hotplug")]
    Restore(restore::RestoreArguments),
    /// Say how long taking hardware threads offline takes, by a model
    Simulate(simulate::SimulateArguments),
}

/// Does what was asked for.
pub fn run(arguments: &CpuArguments) -> anyhow::Result<()> {
    match &arguments.command {
        CpuCommand::Domains(arguments) => domains::run(arguments),
        #[cfg(all(feature = "hotplug", feature = "mount"))]
        CpuCommand::Mount(arguments) => mount::run(arguments),
        #[cfg(feature = "hotplug")]
        CpuCommand::Tune(arguments) => tune::run(arguments),
        #[cfg(feature = "hotplug")]
        CpuCommand::List(arguments) => list::run(arguments),
        #[cfg(feature = "hotplug")]
        CpuCommand::Offline(arguments) => offline::run(arguments),
        #[cfg(feature = "hotplug")]
        CpuCommand::Online(arguments) => online::run(arguments),
        #[cfg(feature = "hotplug")]
        CpuCommand::Smt(arguments) => smt::run(arguments),
        #[cfg(feature = "hotplug")]
        CpuCommand::Restore(arguments) => restore::run(arguments),
        CpuCommand::Simulate(arguments) => simulate::run(arguments),
    }
}
