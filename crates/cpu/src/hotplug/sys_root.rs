//! Root directory below which the kernel's files are read and written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::system::System;

/// Root of the kernel's files: `/`, or a directory with the same layout.
#[derive(Clone, Debug)]
pub struct SysRoot {
    root: PathBuf,
}

impl SysRoot {
    /// Returns the root of the running kernel.
    pub fn running() -> Self {
        Self::at("/")
    }

    /// Returns the root at a directory that contains `sys`, `proc` and `run`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file below the root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the interface to the CPU files below the root.
    pub fn system(&self) -> System {
        System::at(self.path("sys/devices/system/cpu"))
    }

    /// Returns the path of the switch that expedites all RCU grace periods, unless `rcu_normal`
    /// is set (kernel/rcu/update.c, rcu_gp_is_normal).
    pub fn rcu_expedited(&self) -> PathBuf {
        self.path("sys/kernel/rcu_expedited")
    }

    /// Returns the path of the switch that disables expedited grace periods.
    pub fn rcu_normal(&self) -> PathBuf {
        self.path("sys/kernel/rcu_normal")
    }

    /// Returns the path of the switch that makes the kernel show its scheduler domains as
    /// files, since 6.4 (34320745dfc9).
    pub fn verbose(&self) -> PathBuf {
        self.path("sys/kernel/debug/sched/verbose")
    }

    /// Returns the root of the cgroup version 2 hierarchy.
    pub fn cgroups(&self) -> PathBuf {
        self.path("sys/fs/cgroup")
    }

    /// Returns the contents of a file without the final newline; `None` if it is absent or
    /// unreadable.
    pub fn says(&self, name: &str) -> Option<String> {
        read(&self.path(name)).ok()
    }
}

/// Reads a file and removes the final newline.
pub(super) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim_end().to_owned())
}

/// Writes to an existing file. Creating a file would hide that the kernel does not have it.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    io::Write::write_all(&mut file, value.as_bytes())
}
