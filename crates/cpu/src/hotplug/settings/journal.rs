//! What was changed for a while, on a file that outlives whoever changed it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{SettingsError, Undo, Undone};
use crate::hotplug::SysRoot;

/// Where it is, below the root: in memory, so that no reboot finds it.
const DIRECTORY: &str = "run/bigiron";
const NAME: &str = "cpu.journal";

/// Who changed what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The boot (/proc/sys/kernel/random/boot_id): after another one nothing is left to undo.
    pub boot: String,
    /// Who changes the settings.
    pub process: u32,
    /// When that process began, in the kernel's ticks after the boot: process numbers come again.
    pub started: u64,
    /// What it does.
    pub command: String,
    /// Changes, in their order.
    pub undo: Vec<Undo>,
}

impl Journal {
    /// For this process.
    pub(super) fn new(place: &SysRoot, command: &str) -> Self {
        let process = std::process::id();
        Self {
            boot: boot(place),
            process,
            started: started(process).unwrap_or(0),
            command: command.to_owned(),
            undo: Vec::new(),
        }
    }

    /// The directory of journal and lock, made where it is not there.
    ///
    /// # Errors
    /// It cannot be made, or others can write there: they could have files written by root.
    pub(super) fn directory(place: &SysRoot) -> Result<PathBuf, SettingsError> {
        let path = place.path(DIRECTORY);
        let failed = || SettingsError::file(&path);
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(failed())?;
        let data = fs::symlink_metadata(&path).map_err(failed())?;
        let reason = if !data.is_dir() {
            "it is none"
        } else if data.uid() != rustix::process::geteuid().as_raw() {
            "it is somebody else's"
        } else if data.mode() & 0o022 != 0 {
            "others can write to it"
        } else {
            return Ok(path);
        };
        Err(SettingsError::Unsafe { path, reason })
    }

    /// The journal that is there, if it is of this boot; one of another boot is removed.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub(super) fn read(place: &SysRoot) -> Result<Option<Self>, SettingsError> {
        let path = Self::directory(place)?.join(NAME);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(SettingsError::file(&path))?,
        };
        let journal: Self = serde_json::from_slice(&text).map_err(|source| {
            let path = path.clone();
            SettingsError::Journal { path, source }
        })?;
        if journal.boot != boot(place) {
            Self::remove(place)?;
            return Ok(None);
        }
        Ok(Some(journal))
    }

    /// Puts it in the place of the one before, on the disk: whoever reads sees one or the other.
    pub(super) fn write(&self, place: &SysRoot) -> Result<(), SettingsError> {
        let directory = Self::directory(place)?;
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

    /// Removes the one that is there.
    pub(super) fn remove(place: &SysRoot) -> Result<(), SettingsError> {
        let path = place.path(DIRECTORY).join(NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SettingsError::file(path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Undoes everything, the last change first, and then removes the journal. What cannot be
    /// undone stays in it.
    pub(super) fn restore(mut self, place: &SysRoot) -> Result<Vec<Undone>, SettingsError> {
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
            Self::remove(place)?;
            return Ok(undone);
        }
        self.undo = left;
        self.write(place)?;
        Err(SettingsError::NotPutBack(failures))
    }

    /// Whether the process that wrote it is still there.
    pub(super) fn is_alive(&self) -> bool {
        started(self.process) == Some(self.started)
    }
}

fn boot(place: &SysRoot) -> String {
    place
        .says("proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
}

/// When a process began (proc_pid_stat(5), field 22).
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    let stat = stat.ok()?;
    // The name, in parentheses, may have anything in it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
