//! The CPUs of the running kernel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::list::{CpuList, CpuListError};

/// Where the kernel shows its CPUs.
const ROOT: &str = "/sys/devices/system/cpu";

/// Why CPUs cannot be looked at or changed.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// A file of the kernel cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the kernel does not hold what it should.
    #[error("{}: {source}", path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: CpuListError,
    },
    /// Files or a directory make no sense together: too many CPUs, distances that fit no nodes.
    #[error("{}: {reason}", path.display())]
    Senseless {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong, and what was expected.
        reason: String,
    },
}

/// What came of bringing CPUs up.
#[derive(Debug, Default)]
pub struct BroughtUp {
    /// Those that are online now and were not before.
    pub up: CpuList,
    /// Those that stay offline, and why.
    pub failed: Vec<(u32, CpuError)>,
}

/// The CPUs as the kernel shows them.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// The running kernel's.
    pub fn running() -> Self {
        Self::at(ROOT)
    }

    /// Those shown at another place.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// CPUs that are there and can be brought up: `present`.
    pub fn present(&self) -> Result<CpuList, CpuError> {
        self.list("present")
    }

    /// CPUs that could ever be there: `possible`.
    pub fn possible(&self) -> Result<CpuList, CpuError> {
        self.list("possible")
    }

    /// CPUs that work: `online`.
    pub fn online(&self) -> Result<CpuList, CpuError> {
        self.list("online")
    }

    /// Brings CPUs up, in their order, until `wanted` are online. One that
    /// does not come up is reported, and the next is tried.
    ///
    /// # Errors
    /// Only if the lists of CPUs cannot be read: then nothing was changed.
    pub fn bring_up(&self, wanted: usize) -> Result<BroughtUp, CpuError> {
        let online = self.online()?;
        let offline = self.present()?.without(&online);
        let (mut up, mut failed) = (Vec::new(), Vec::new());
        for cpu in offline.iter() {
            if online.len() + up.len() >= wanted {
                break;
            }
            match self.set_online(cpu, true) {
                Ok(()) => up.push(cpu),
                Err(error) => failed.push((cpu, error)),
            }
        }
        Ok(BroughtUp {
            up: up.into_iter().collect(),
            failed,
        })
    }

    /// Brings a CPU up, or takes it offline; ends when that is done.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn set_online(&self, cpu: u32, online: bool) -> Result<(), CpuError> {
        let value = if online { "1" } else { "0" };
        write(self.switch(cpu), value)
    }

    /// The file that takes a CPU offline.
    pub fn switch(&self, cpu: u32) -> PathBuf {
        self.path(&format!("cpu{cpu}/online"))
    }

    /// Whether a CPU has that file: one that cannot go has none.
    pub fn has_switch(&self, cpu: u32) -> bool {
        self.switch(cpu).exists()
    }

    /// What the kernel says of hardware threads: `on`, `off`, `forceoff`, `notsupported`,
    /// `notimplemented`, or a number. `None` where it says nothing.
    pub fn smt_control(&self) -> Option<String> {
        self.value("smt/control")
    }

    /// Sets that.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn set_smt_control(&self, value: &str) -> Result<(), CpuError> {
        write(self.path("smt/control"), value)
    }

    /// A file below the directory of the CPUs.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// What a file says, without the end of its line; `None` where it cannot be read.
    pub fn value(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        Some(text.trim_end().to_owned())
    }

    /// A list of CPUs that need not be there: then it is empty. `(null)` is what kernels print
    /// of a mask that they did not allocate (lib/vsprintf.c).
    ///
    /// # Errors
    /// The file holds something else.
    pub fn optional_list(&self, name: &str) -> Result<CpuList, CpuError> {
        match self.value(name) {
            None => Ok(CpuList::default()),
            Some(text) if text.trim() == "(null)" => Ok(CpuList::default()),
            Some(text) => self.parse(name, &text),
        }
    }

    fn list(&self, name: &str) -> Result<CpuList, CpuError> {
        self.parse(name, &read(&self.root.join(name))?)
    }

    fn parse(&self, name: &str, text: &str) -> Result<CpuList, CpuError> {
        text.parse().map_err(|source| CpuError::List {
            path: self.root.join(name),
            source,
        })
    }
}

/// Not fs::write: that would make a file where the kernel shows none.
fn write(path: PathBuf, value: &str) -> Result<(), CpuError> {
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .map_err(|source| CpuError::File { path, source })
}

fn read(path: &Path) -> Result<String, CpuError> {
    fs::read_to_string(path).map_err(|source| CpuError::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory as the kernel shows it; CPUs of `broken` have no file.
    fn system(present: &str, online: &str, broken: &[u32]) -> (tempfile::TempDir, System) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("present"), present).unwrap();
        fs::write(root.join("online"), online).unwrap();
        let cpus: CpuList = present.parse().unwrap();
        for cpu in cpus.iter() {
            fs::create_dir(root.join(format!("cpu{cpu}"))).unwrap();
            if !broken.contains(&cpu) {
                fs::write(root.join(format!("cpu{cpu}/online")), "0").unwrap();
            }
        }
        let system = System::at(root);
        (directory, system)
    }

    fn state(system: &System, cpu: u32) -> String {
        fs::read_to_string(system.root.join(format!("cpu{cpu}/online"))).unwrap()
    }

    #[test]
    fn as_many_come_up_as_are_wanted() {
        let (_directory, system) = system("0-3\n", "0\n", &[]);
        let brought = system.bring_up(3).unwrap();
        assert_eq!(brought.up.to_string(), "1-2");
        assert!(brought.failed.is_empty());
        assert_eq!([1, 2, 3].map(|cpu| state(&system, cpu)), ["1", "1", "0"]);
    }

    #[test]
    fn nothing_happens_where_enough_are_there() {
        let (_directory, system) = system("0-3", "0-1", &[]);
        let brought = system.bring_up(2).unwrap();
        assert!(brought.up.is_empty() && brought.failed.is_empty());
        assert_eq!(state(&system, 2), "0");
    }

    #[test]
    fn one_that_does_not_come_up_does_not_stop_the_others() {
        let (directory, system) = system("0-3", "0", &[1]);
        let brought = system.bring_up(usize::MAX).unwrap();
        assert_eq!(brought.up.to_string(), "2-3");
        let [(1, error)] = &brought.failed[..] else {
            panic!("{:?}", brought.failed);
        };
        assert!(error.to_string().contains("cpu1/online"));
        assert!(!directory.path().join("cpu1/online").exists());
    }

    #[test]
    fn without_sysfs_there_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let system = System::at(directory.path().join("none"));
        let error = system.bring_up(2).unwrap_err();
        assert!(error.to_string().contains("none/online"), "{error}");
        fs::write(directory.path().join("online"), "zero").unwrap();
        let system = System::at(directory.path());
        let error = system.bring_up(2).unwrap_err();
        assert!(error.to_string().contains("no list of CPUs"), "{error}");
    }
}
