//! Journal of temporary settings: a file that outlives the process that changed them.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{SettingsError, Undo, Undone};
use crate::hotplug::SysRoot;

/// Directory of the journal, below the root. It is on a tmpfs, so the journal does not survive
/// a reboot.
const DIRECTORY: &str = "run/bigiron";
const NAME: &str = "cpu.journal";

/// Settings changed by one process, with the information needed to undo the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Boot ID (/proc/sys/kernel/random/boot_id). After another boot there is nothing to undo.
    pub boot: String,
    /// PID of the process that changes the settings.
    pub process: u32,
    /// Start time of that process, in clock ticks after boot: PIDs are reused.
    pub started: u64,
    /// Command that the process runs.
    pub command: String,
    /// Changes, in the order they were made.
    pub undo: Vec<Undo>,
}

impl Journal {
    /// Returns an empty journal of this process.
    pub(super) fn new(root: &SysRoot, command: &str) -> Self {
        let process = std::process::id();
        Self {
            boot: boot(root),
            process,
            started: started(process).unwrap_or(0),
            command: command.to_owned(),
            undo: Vec::new(),
        }
    }

    /// Returns the directory of journal and lock; creates it if it does not exist.
    ///
    /// # Errors
    /// It cannot be created, or others can write to it: they could make root write to files of
    /// their choice.
    pub(super) fn directory(root: &SysRoot) -> Result<PathBuf, SettingsError> {
        let path = root.path(DIRECTORY);
        let failed = || SettingsError::file(&path);
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(failed())?;
        let data = fs::symlink_metadata(&path).map_err(failed())?;
        let reason = if !data.is_dir() {
            "not a directory"
        } else if data.uid() != rustix::process::geteuid().as_raw() {
            "owned by another user"
        } else if data.mode() & 0o022 != 0 {
            "writable by other users"
        } else {
            return Ok(path);
        };
        Err(SettingsError::Unsafe { path, reason })
    }

    /// Returns the existing journal if it is from this boot; removes a journal from another
    /// boot.
    ///
    /// # Errors
    /// The journal cannot be read or parsed.
    pub(super) fn read(root: &SysRoot) -> Result<Option<Self>, SettingsError> {
        let path = Self::directory(root)?.join(NAME);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(SettingsError::file(&path))?,
        };
        let journal: Self = serde_json::from_slice(&text).map_err(|cause| {
            let path = path.clone();
            SettingsError::Journal { path, cause }
        })?;
        if journal.boot != boot(root) {
            Self::remove(root)?;
            return Ok(None);
        }
        Ok(Some(journal))
    }

    /// Writes the journal to disk and replaces the previous one atomically: a reader sees one
    /// or the other.
    pub(super) fn write(&self, root: &SysRoot) -> Result<(), SettingsError> {
        let directory = Self::directory(root)?;
        let (path, new) = (directory.join(NAME), directory.join("cpu.journal.new"));
        let write = || {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&new)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            fs::File::open(&directory)?.sync_all()
        };
        write().map_err(SettingsError::file(&path))
    }

    /// Removes the journal.
    pub(super) fn remove(root: &SysRoot) -> Result<(), SettingsError> {
        let path = root.path(DIRECTORY).join(NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SettingsError::file(path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Undoes all changes, the last one first, and then removes the journal. Changes that
    /// cannot be undone stay in it.
    pub(super) fn restore(mut self, root: &SysRoot) -> Result<Vec<Undone>, SettingsError> {
        let (mut undone, mut failures, mut left) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(undo) = self.undo.pop() {
            match undo.undo() {
                Ok(what) => undone.push(what),
                Err(failure) => {
                    failures.push(failure);
                    left.insert(0, undo);
                }
            }
        }
        if failures.is_empty() {
            Self::remove(root)?;
            return Ok(undone);
        }
        self.undo = left;
        self.write(root)?;
        Err(SettingsError::NotPutBack(failures))
    }

    /// Returns true if the process that wrote the journal is still running.
    pub(super) fn is_alive(&self) -> bool {
        started(self.process) == Some(self.started)
    }
}

fn boot(root: &SysRoot) -> String {
    root.says("proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
}

/// Returns the start time of a process (proc_pid_stat(5), field 22).
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    let stat = stat.ok()?;
    // The process name, in parentheses, may contain any character.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
