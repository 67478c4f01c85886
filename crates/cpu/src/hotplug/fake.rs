//! Fake machine made of files, for tests.

use std::fs;
use std::path::{Path, PathBuf};

use super::SysRoot;
use super::settings::WatchdogCommand;

/// Directory laid out as the root of a machine with four CPUs: two cores with two threads each.
pub struct Fake {
    directory: tempfile::TempDir,
}

impl Fake {
    /// Creates the machine with all CPUs online, default RCU settings, and sched/verbose on.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let fake = Self { directory };
        for (name, text) in [
            ("sys/devices/system/cpu/present", "0-3\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/cpu/isolated", "\n"),
            ("sys/devices/system/cpu/nohz_full", "  (null)\n"),
            ("sys/devices/system/cpu/smt/control", "on\n"),
            ("sys/kernel/rcu_expedited", "0\n"),
            ("sys/kernel/rcu_normal", "0\n"),
            ("sys/kernel/debug/sched/verbose", "Y\n"),
            ("proc/sys/kernel/random/boot_id", "one\n"),
        ] {
            fake.write(name, text);
        }
        for cpu in 0..4 {
            let core = if cpu < 2 { "0-1\n" } else { "2-3\n" };
            let path = format!("sys/devices/system/cpu/cpu{cpu}");
            fake.write(&format!("{path}/topology/core_cpus_list"), core);
            fake.write(&format!("{path}/topology/physical_package_id"), "0\n");
            fs::create_dir(fake.path(&format!("{path}/node0"))).unwrap();
            if cpu > 0 {
                fake.write(&format!("{path}/online"), "1\n");
            }
        }
        fake
    }

    pub fn sys_root(&self) -> SysRoot {
        SysRoot::at(self.directory.path())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Creates a file and its directories.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn says(&self, name: &str) -> String {
        self.sys_root().says(name).unwrap()
    }

    /// Returns the contents of the `online` files of CPUs 1 to 3.
    pub fn switches(&self) -> [String; 3] {
        [1, 2, 3].map(|cpu| self.says(&format!("sys/devices/system/cpu/cpu{cpu}/online")))
    }

    /// Returns the values of `rcu_expedited` and `verbose`.
    pub fn settings(&self) -> [String; 2] {
        ["sys/kernel/rcu_expedited", "sys/kernel/debug/sched/verbose"].map(|name| self.says(name))
    }

    /// Returns a watchdog that reports ready, waits, and does nothing.
    pub fn watchdog() -> WatchdogCommand {
        ["sh", "-c", "printf r >&0; cat >/dev/null"]
            .map(Into::into)
            .to_vec()
    }
}
