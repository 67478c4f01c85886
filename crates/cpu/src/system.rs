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
}

/// What came of bringing CPUs up.
#[derive(Debug, Default)]
pub struct BroughtUp {
    /// Those that are on line now and were not before.
    pub up: CpuList,
    /// Those that stay off line, and why.
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

    /// CPUs that work: `online`.
    pub fn online(&self) -> Result<CpuList, CpuError> {
        self.list("online")
    }

    /// Brings CPUs up, in their order, until `wanted` are on line. One that
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
            match self.set_online(cpu) {
                Ok(()) => up.push(cpu),
                Err(error) => failed.push((cpu, error)),
            }
        }
        Ok(BroughtUp {
            up: up.into_iter().collect(),
            failed,
        })
    }

    fn set_online(&self, cpu: u32) -> Result<(), CpuError> {
        let path = self.root.join(format!("cpu{cpu}/online"));
        // Not fs::write: that would make a file where the kernel shows none.
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, b"1"))
            .map_err(|source| CpuError::File { path, source })
    }

    fn list(&self, name: &str) -> Result<CpuList, CpuError> {
        let path = self.root.join(name);
        let text = read(&path)?;
        text.parse()
            .map_err(|source| CpuError::List { path, source })
    }
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
