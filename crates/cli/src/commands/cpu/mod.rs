//! `bigiron cpu`: scheduler domains, and the cost of taking CPUs offline.

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
    /// Subcommand.
    #[command(subcommand)]
    command: CpuCommand,
}

#[derive(Debug, Subcommand)]
enum CpuCommand {
    /// Show the scheduler domains of the running kernel, of a dump, or of a described machine
    Domains(Box<domains::DomainsArguments>),
    /// Mount the scheduler domains as files, in the kernel's own layout, at no cost to hotplug
    #[cfg(all(feature = "hotplug", feature = "mount"))]
    Mount(mount::MountArguments),
    /// Save tunings of scheduler domains, and restore them after the kernel has reset them
    #[cfg(feature = "hotplug")]
    Tune(tune::TuneArguments),
    /// Show the CPUs, their topology, and what keeps them online
    #[cfg(feature = "hotplug")]
    List(list::ListArguments),
    /// Take CPUs offline
    #[cfg(feature = "hotplug")]
    Offline(offline::OfflineArguments),
    /// Bring CPUs online
    #[cfg(feature = "hotplug")]
    Online(online::OnlineArguments),
    /// Set the number of online hardware threads per core
    #[cfg(feature = "hotplug")]
    Smt(smt::SmtArguments),
    /// Restore settings left changed by a killed command
    #[cfg(feature = "hotplug")]
    Restore(restore::RestoreArguments),
    /// Predict the time to take hardware threads offline, by a model
    Simulate(simulate::SimulateArguments),
}

/// Runs the subcommand.
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
