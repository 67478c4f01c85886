//! CPUs on and off line, by the kernel's own files under
//! /sys/devices/system/cpu (Documentation/ABI/testing/sysfs-devices-system-cpu).

mod list;
mod system;

pub use list::{CpuList, CpuListError};
pub use system::{BroughtUp, CpuError, System};
