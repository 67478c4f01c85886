//! Errors that prevent a hotplug operation from starting.

use crate::list::CpuList;
use crate::system::CpuError;

use super::SettingsError;

/// Error that prevents a hotplug operation from starting. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum HotplugError {
    /// The CPU states cannot be read.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// Kernel settings cannot be changed temporarily.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Some of the requested CPUs do not exist.
    #[error("CPUs {asked} are not present; this machine has {present}")]
    NotThere {
        /// Requested CPUs that are not present.
        asked: CpuList,
        /// Present CPUs.
        present: CpuList,
    },
    /// CPUs that the kernel cannot take offline.
    #[error(
        "CPUs {0} cannot go offline: they have no `online` file in sysfs, as usual for the boot CPU"
    )]
    Fixed(CpuList),
    /// No CPU would be left for ordinary tasks.
    #[error(
        "taking CPUs {asked} offline leaves {left}; at least one CPU that is not isolated must stay online"
    )]
    Last {
        /// Requested CPUs.
        asked: CpuList,
        /// CPUs that would be left: `none`, or a list of isolated CPUs.
        left: String,
    },
    /// A file is not writable for this user, or for any user.
    #[error("{path}: {cause}; run as root, with sysfs mounted read-write")]
    NotAllowed {
        /// Path of the file.
        path: String,
        /// Error of the access check.
        cause: std::io::Error,
    },
    /// Unsupported number of threads per core.
    #[error(
        "{asked} threads per core: cores have {most} online; expected 1 to {most}, `on` or `off`"
    )]
    Threads {
        /// Requested number of threads per core.
        asked: usize,
        /// Largest number of online threads of any core.
        most: usize,
    },
    /// SMT is disabled until the next boot (`forceoff`).
    #[error("smt/control is {0}: hardware threads stay offline until the next boot")]
    ForcedOff(String),
}
