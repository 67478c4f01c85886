//! Sets tunables in the running kernel, by its own files.
//!
//! Since 6.4 the kernel shows them only while sched/verbose is Y (34320745dfc9), and then rebuilds
//! cost more. So that is set for as short as it takes to write, and put back.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Tunable, TuneError};
use crate::domains::SchedDomain;
use crate::files::Chains;

/// Where debugfs shows the scheduler.
const DEBUGFS: &str = "/sys/kernel/debug/sched";
/// Where the files are before 5.13.
const SYSCTL: &str = "/proc/sys/kernel/sched_domain";

/// Changes a setting of the kernel for a while.
pub trait TemporarySettings: Send + Sync {
    /// Writes `value` to `file`, and puts back what was there when the result is dropped, or its
    /// holder killed.
    ///
    /// # Errors
    /// It was not changed; the reason for people.
    fn set(&self, file: &Path, value: &str) -> Result<Box<dyn RestoreSetting>, String>;
}

/// A setting that was changed, and is put back when this is dropped.
pub trait RestoreSetting {
    /// Puts it back.
    ///
    /// # Errors
    /// It is not as it was; the reason for people.
    fn restore(self: Box<Self>) -> Result<(), String>;
}

/// A value that a tunable is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The CPU.
    pub cpu: u32,
    /// The domain's place in its chain.
    pub number: usize,
    /// The domain's name, if it has one: another one is not changed.
    pub name: Option<String>,
    /// What is set.
    pub tunable: Tunable,
    /// What it had before, if that is known.
    pub before: Option<u64>,
    /// What it is to have.
    pub value: u64,
}

impl Change {
    /// A change of `domain`.
    pub fn of(domain: &SchedDomain, tunable: Tunable, value: u64) -> Self {
        let before = domain.tunables.as_ref();
        Self {
            cpu: domain.cpu,
            number: domain.number,
            name: domain.name.clone(),
            tunable,
            before: before.map(|tunables| tunable.of(tunables)),
            value,
        }
    }

    /// The file, below the directory of domains.
    pub fn path(&self) -> String {
        let name = self.tunable.name();
        format!("cpu{}/domain{}/{name}", self.cpu, self.number)
    }
}

/// Writes to the kernel's files.
pub struct Tuner {
    debugfs: PathBuf,
    sysctl: PathBuf,
    temporary: Box<dyn TemporarySettings>,
    /// One shows and hides the files at a time.
    turn: Mutex<()>,
}

impl Tuner {
    /// Of the running kernel.
    pub fn running(temporary: impl TemporarySettings + 'static) -> Self {
        Self::at(DEBUGFS, SYSCTL, temporary)
    }

    /// Of directories that look like the kernel's `debug/sched` and `sched_domain`.
    pub fn at(
        debugfs: impl Into<PathBuf>,
        sysctl: impl Into<PathBuf>,
        temporary: impl TemporarySettings + 'static,
    ) -> Self {
        Self {
            debugfs: debugfs.into(),
            sysctl: sysctl.into(),
            temporary: Box::new(temporary),
            turn: Mutex::new(()),
        }
    }

    /// Makes changes, and looks by `chains` whether the kernel has them: one result for each.
    ///
    /// # Errors
    /// The kernel's files do not show, or sched/verbose was not put back.
    pub fn write(
        &self,
        chains: &dyn Chains,
        changes: &[Change],
    ) -> Result<Vec<Result<(), TuneError>>, TuneError> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let written: Vec<_> = {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let (root, hidden) = self.show()?;
            let write = |change| write(&root, change);
            let written = changes.iter().map(write).collect();
            if let Some(hidden) = hidden {
                let path = self.verbose();
                let restore = hidden.restore();
                restore.map_err(|reason| TuneError::Verbose { path, reason })?;
            }
            written
        };
        let results = written.into_iter().zip(changes);
        let check = |(result, change): (Result<(), TuneError>, _)| {
            result.and_then(|()| check(chains, change))
        };
        Ok(results.map(check).collect())
    }

    /// The directory of the kernel's files, and what hides them again if they were hidden.
    fn show(&self) -> Result<(PathBuf, Option<Box<dyn RestoreSetting>>), TuneError> {
        let root = self.debugfs.join("domains");
        for there in [&root, &self.sysctl] {
            if has_entries(there)? {
                return Ok((there.clone(), None));
            }
        }
        let path = self.verbose();
        let verbose = match fs::read_to_string(&path) {
            Ok(verbose) => verbose,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(TuneError::NoFiles { root });
            }
            Err(error) => return Err(TuneError::file(path)(error)),
        };
        if verbose.trim() != "N" {
            return Err(TuneError::NoFiles { root });
        }
        let hidden = self.temporary.set(&path, "Y");
        let hidden = hidden.map_err(|reason| TuneError::Verbose { path, reason })?;
        Ok((root, Some(hidden)))
    }

    fn verbose(&self) -> PathBuf {
        self.debugfs.join("verbose")
    }
}

/// Whether a directory is there with something in it.
fn has_entries(directory: &Path) -> Result<bool, TuneError> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(TuneError::file(directory)(error))
        }
        Err(_) => Ok(false),
    }
}

fn write(root: &Path, change: &Change) -> Result<(), TuneError> {
    let path = root.join(change.path());
    let rebuilt = || TuneError::Rebuilt {
        what: change.path(),
    };
    // The kernel's directories have numbers only: the name says whether it is the same domain.
    let name = path.with_file_name("name");
    match fs::read_to_string(&name) {
        Ok(found)
            if change
                .name
                .as_deref()
                .is_none_or(|name| name == found.trim_end()) => {}
        Ok(_) => return Err(rebuilt()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(rebuilt()),
        Err(error) => return Err(TuneError::file(name)(error)),
    }
    // Not fs::write, which would make the file where there is none.
    let file = fs::OpenOptions::new().write(true).open(&path);
    let text = format!("{}\n", change.value);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(TuneError::file(path))
}

/// The kernel's file points into the domain's memory: where domains were built anew just then,
/// the write went to one that nobody uses.
fn check(chains: &dyn Chains, change: &Change) -> Result<(), TuneError> {
    let what = || change.path();
    let chain = chains.chain(change.cpu);
    let chain = chain.map_err(|error| TuneError::Source(error.to_string()))?;
    let domain = chain.get(change.number);
    let domain = domain.filter(|domain| change.name.is_none() || domain.name == change.name);
    let domain = domain.ok_or_else(|| TuneError::Rebuilt { what: what() })?;
    // A source that tells no tunables cannot tell this one.
    let Some(tunables) = &domain.tunables else {
        return Ok(());
    };
    match change.tunable.of(tunables) {
        found if found == change.value => Ok(()),
        found if Some(found) == change.before => Err(TuneError::Rebuilt { what: what() }),
        found => Err(TuneError::NotTaken {
            what: what(),
            wanted: change.value,
            found,
        }),
    }
}
