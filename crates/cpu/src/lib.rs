//! CPUs on and off line, by the kernel's own files under
//! /sys/devices/system/cpu (Documentation/ABI/testing/sysfs-devices-system-cpu),
//! and the sets of them among which the scheduler balances load.

pub mod build;
mod domains;
pub mod files;
pub mod flags;
#[cfg(feature = "hotplug")]
pub mod hotplug;
mod list;
pub mod show;
pub mod simulate;
pub mod source;
mod system;
pub mod topology;
mod tree;
pub mod tune;

pub use domains::{SchedDomain, Tunables};
pub use list::{CpuList, CpuListError};
pub use system::{BroughtUp, CpuError, System};
pub use tree::{DomainTree, Forest, Node};
