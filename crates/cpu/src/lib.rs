//! CPUs on and off line, by the kernel's own files under
//! /sys/devices/system/cpu (Documentation/ABI/testing/sysfs-devices-system-cpu),
//! and the sets of them among which the scheduler balances load.

mod domains;
mod list;
mod system;

pub use domains::SchedDomain;
pub use list::{CpuList, CpuListError};
pub use system::{BroughtUp, CpuError, System};
