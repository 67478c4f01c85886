//! Sets tunables in the running kernel, through its own files.
//!
//! Since 6.4 the files exist only while sched/verbose is Y (34320745dfc9), which makes rebuilds
//! more expensive. It is therefore Y only while values are written, and then restored.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Tunable, TuneError};
use crate::domains::SchedDomain;
use crate::source::Chains;

/// Directory of the scheduler in debugfs.
const DEBUGFS: &str = "/sys/kernel/debug/sched";
/// Directory of the files before 5.13.
const SYSCTL: &str = "/proc/sys/kernel/sched_domain";

/// Changes kernel settings temporarily.
pub trait TemporarySettings: Send + Sync {
    /// Writes `value` to `file`. The previous contents are restored when the result is dropped,
    /// or when its process is killed.
    ///
    /// # Errors
    /// The setting was not changed; the error is the reason, for the user.
    fn set(&self, file: &Path, value: &str) -> Result<Box<dyn RestoreSetting>, String>;
}

/// Temporary setting, restored on drop.
pub trait RestoreSetting {
    /// Restores the setting.
    ///
    /// # Errors
    /// The setting was not restored; the error is the reason, for the user.
    fn restore(self: Box<Self>) -> Result<(), String>;
}

/// New value of a tunable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// CPU number.
    pub cpu: u32,
    /// Position of the domain in its chain.
    pub number: usize,
    /// Name of the domain, if it has one; a domain with another name is not changed.
    pub name: Option<String>,
    /// Tunable to set.
    pub tunable: Tunable,
    /// Previous value, if known.
    pub before: Option<u64>,
    /// New value.
    pub value: u64,
}

impl Change {
    /// Creates a change of `domain`.
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

    /// Returns the path of the file, relative to the directory of domains.
    pub fn path(&self) -> String {
        let name = self.tunable.name();
        format!("cpu{}/domain{}/{name}", self.cpu, self.number)
    }
}

/// Writer to the kernel's files.
pub struct Tuner {
    debugfs: PathBuf,
    sysctl: PathBuf,
    temporary: Box<dyn TemporarySettings>,
    /// Held while the files are shown and hidden again.
    turn: Mutex<()>,
}

impl Tuner {
    /// Creates a writer to the running kernel.
    pub fn running(temporary: impl TemporarySettings + 'static) -> Self {
        Self::at(DEBUGFS, SYSCTL, temporary)
    }

    /// Creates a writer to directories laid out as the kernel's `debug/sched` and
    /// `sched_domain`.
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

    /// Writes the changes, and checks with `chains` that the kernel has them. Returns one
    /// result per change.
    ///
    /// # Errors
    /// The kernel's files cannot be shown, or sched/verbose was not restored.
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

    /// Returns the directory of the kernel's files, and a guard that hides them if they were
    /// hidden before.
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

/// Returns true if a directory exists and is not empty.
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
    // The kernel's directories are only numbered; the name shows that the domain is the same.
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
    // Not fs::write, which would create a missing file.
    let file = fs::OpenOptions::new().write(true).open(&path);
    let text = format!("{}\n", change.value);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(TuneError::file(path))
}

/// Checks that the kernel has the value. The kernel's file points into the memory of the
/// domain: if the domains were rebuilt at that moment, the write went to an unused domain.
fn check(chains: &dyn Chains, change: &Change) -> Result<(), TuneError> {
    let what = || change.path();
    let chain = chains.chain(change.cpu);
    let chain = chain.map_err(|error| TuneError::Source(error.to_string()))?;
    let domain = chain.get(change.number);
    let domain = domain.filter(|domain| change.name.is_none() || domain.name == change.name);
    let domain = domain.ok_or_else(|| TuneError::Rebuilt { what: what() })?;
    // A source without tunables cannot check this one.
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
