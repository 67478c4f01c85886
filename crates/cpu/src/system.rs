//! CPUs of the running kernel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::list::{CpuList, CpuListError};

/// Directory of the kernel's CPU files.
const ROOT: &str = "/sys/devices/system/cpu";

/// Error of reading or changing CPU states.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// A kernel file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        cause: io::Error,
    },
    /// A kernel file does not contain a valid CPU list.
    #[error("{}: {cause}", path.display())]
    List {
        /// Path of the file.
        path: PathBuf,
        /// Parse error.
        cause: CpuListError,
    },
    /// Files or a directory are inconsistent: too many CPUs, or distances that do not match the
    /// nodes.
    #[error("{}: {reason}", path.display())]
    Senseless {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error, with the expected contents.
        reason: String,
    },
}

/// Result of bringing CPUs online.
#[derive(Debug, Default)]
pub struct BroughtUp {
    /// CPUs that were brought online.
    pub up: CpuList,
    /// CPUs that stay offline, with the error of each.
    pub failed: Vec<(u32, CpuError)>,
}

/// Interface to the kernel's CPU files.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// Returns the interface to the running kernel.
    pub fn running() -> Self {
        Self::at(ROOT)
    }

    /// Returns the interface to CPU files in another directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the CPUs that exist and can be brought online: `present`.
    pub fn present(&self) -> Result<CpuList, CpuError> {
        self.list("present")
    }

    /// Returns the CPUs that could ever exist: `possible`.
    pub fn possible(&self) -> Result<CpuList, CpuError> {
        self.list("possible")
    }

    /// Returns the CPUs in use: `online`.
    pub fn online(&self) -> Result<CpuList, CpuError> {
        self.list("online")
    }

    /// Brings CPUs online, in ascending order, until `wanted` are online. A CPU that fails is
    /// reported, and the next one is tried.
    ///
    /// # Errors
    /// The lists of CPUs cannot be read; nothing was changed.
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

    /// Brings a CPU online or takes it offline; returns when the kernel has finished.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_online(&self, cpu: u32, online: bool) -> Result<(), CpuError> {
        let value = if online { "1" } else { "0" };
        write(self.switch(cpu), value)
    }

    /// Returns the path of a CPU's `online` file.
    pub fn switch(&self, cpu: u32) -> PathBuf {
        self.path(&format!("cpu{cpu}/online"))
    }

    /// Returns true if a CPU has an `online` file; a CPU that cannot go offline has none.
    pub fn has_switch(&self, cpu: u32) -> bool {
        self.switch(cpu).exists()
    }

    /// Returns the contents of smt/control: `on`, `off`, `forceoff`, `notsupported`,
    /// `notimplemented`, or a number; `None` if it cannot be read.
    pub fn smt_control(&self) -> Option<String> {
        self.value("smt/control")
    }

    /// Writes smt/control.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_smt_control(&self, value: &str) -> Result<(), CpuError> {
        write(self.path("smt/control"), value)
    }

    /// Returns the path of a file below the directory of the CPUs.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the contents of a file without the final newline; `None` if it cannot be read.
    pub fn value(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        Some(text.trim_end().to_owned())
    }

    /// Reads a list of CPUs from an optional file; the list is empty if the file does not
    /// exist. Kernels print `(null)` for a mask that they did not allocate (lib/vsprintf.c).
    ///
    /// # Errors
    /// The file contains something else.
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
        text.parse().map_err(|cause| CpuError::List {
            path: self.root.join(name),
            cause,
        })
    }
}

/// Writes to an existing file. fs::write would create a file that the kernel does not show.
fn write(path: PathBuf, value: &str) -> Result<(), CpuError> {
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .map_err(|cause| CpuError::File { path, cause })
}

fn read(path: &Path) -> Result<String, CpuError> {
    fs::read_to_string(path).map_err(|cause| CpuError::File {
        path: path.to_owned(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory with the kernel's layout; CPUs in `broken` have no `online` file.
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
    fn wanted_number_of_cpus_is_brought_online() {
        let (_directory, system) = system("0-3\n", "0\n", &[]);
        let brought = system.bring_up(3).unwrap();
        assert_eq!(brought.up.to_string(), "1-2");
        assert!(brought.failed.is_empty());
        assert_eq!([1, 2, 3].map(|cpu| state(&system, cpu)), ["1", "1", "0"]);
    }

    #[test]
    fn nothing_changes_if_enough_cpus_are_online() {
        let (_directory, system) = system("0-3", "0-1", &[]);
        let brought = system.bring_up(2).unwrap();
        assert!(brought.up.is_empty() && brought.failed.is_empty());
        assert_eq!(state(&system, 2), "0");
    }

    #[test]
    fn failing_cpu_does_not_stop_the_others() {
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
    fn error_names_a_missing_or_invalid_file() {
        let directory = tempfile::tempdir().unwrap();
        let system = System::at(directory.path().join("none"));
        let error = system.bring_up(2).unwrap_err();
        assert!(error.to_string().contains("none/online"), "{error}");
        fs::write(directory.path().join("online"), "zero").unwrap();
        let system = System::at(directory.path());
        let error = system.bring_up(2).unwrap_err();
        assert!(error.to_string().contains("invalid CPU list"), "{error}");
    }
}
