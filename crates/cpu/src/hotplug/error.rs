//! Why nothing is begun.

use crate::list::CpuList;
use crate::system::CpuError;

use super::SettingsError;

/// Why CPUs are not taken offline or brought up. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum HotplugError {
    /// The CPUs cannot be looked at.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// Settings of the kernel cannot be changed for a while.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// CPUs that the machine does not have.
    #[error("CPUs {asked} are not there; this machine has {present}")]
    NotThere {
        /// Those that were asked for and are not.
        asked: CpuList,
        /// Those that are.
        present: CpuList,
    },
    /// CPUs that the kernel lets nobody take offline.
    #[error(
        "CPUs {0} cannot go offline: the kernel gives them no file `online`, as for the CPU that a machine booted with"
    )]
    Fixed(CpuList),
    /// No CPU would be left for ordinary tasks.
    #[error(
        "taking {asked} offline leaves {left}; at least one CPU that is not isolated must stay"
    )]
    Last {
        /// Those that were asked for.
        asked: CpuList,
        /// What would be left: none, or isolated ones.
        left: String,
    },
    /// A file cannot be written by this user, or by nobody.
    #[error(
        "{path}: {source}; expected to write there: as root, and with sysfs mounted for writing"
    )]
    NotAllowed {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Threads of a core that there cannot be.
    #[error(
        "{asked} threads for each core: cores have {most} online; expected from 1 to {most}, `on` or `off`"
    )]
    Threads {
        /// What was asked for.
        asked: usize,
        /// The most of any core.
        most: usize,
    },
    /// The kernel was told not to have hardware threads.
    #[error("the kernel's smt/control says {0}: hardware threads stay offline until the next boot")]
    ForcedOff(String),
}
