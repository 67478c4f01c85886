//! CPU hotplug through the kernel's files under /sys/devices/system/cpu
//! (Documentation/ABI/testing/sysfs-devices-system-cpu), and scheduler domains, the sets of
//! CPUs within which the scheduler balances load.

#[cfg(feature = "domains")]
pub mod build;
#[cfg(feature = "domains")]
mod domains;
#[cfg(feature = "domains")]
pub mod files;
#[cfg(feature = "domains")]
pub mod flags;
#[cfg(feature = "hotplug")]
pub mod hotplug;
mod list;
#[cfg(feature = "domains")]
pub mod show;
#[cfg(feature = "domains")]
pub mod simulate;
#[cfg(feature = "domains")]
pub mod source;
mod system;
#[cfg(feature = "domains")]
pub mod topology;
#[cfg(feature = "domains")]
mod tree;
#[cfg(feature = "domains")]
pub mod tune;

#[cfg(feature = "domains")]
pub use domains::{SchedDomain, Tunables};
pub use list::{CpuList, CpuListError};
pub use system::{BroughtUp, CpuError, System};
#[cfg(feature = "domains")]
pub use tree::{DomainTree, Forest, Node};
