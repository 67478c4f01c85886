//! Temporary kernel settings, restored however the process ends.
//!
//! Before anything is changed, the old values are stored in a journal under `/run/bigiron`, and
//! a watchdog process waits for the end of this one. After a normal end, an error or a signal,
//! this process restores them; after SIGKILL, the watchdog does; if the watchdog was killed
//! too, [`restore`] or the next [`Settings::begin`] does. A lock prevents two commands from
//! mistaking each other's temporary values for the old ones. After a power failure the kernel
//! has its own defaults.

mod error;
mod journal;
mod lock;
mod undo;
mod watchdog;

use std::fs;
use std::path::Path;
use std::time::Duration;

pub use error::SettingsError;
pub use journal::Journal;
pub use undo::{Undo, Undone};
pub use watchdog::{WatchdogCommand, serve};

use super::SysRoot;
use super::sys_root::{read, write};
use watchdog::Watchdog;

/// Changed settings. They are restored on drop; [`Settings::restore`] also returns the result.
#[derive(Debug)]
pub struct Settings {
    root: SysRoot,
    /// `None` once all settings are restored.
    active: Option<Active>,
}

#[derive(Debug)]
struct Active {
    journal: Journal,
    watchdog: Watchdog,
    /// Closed last.
    _lock: fs::File,
}

impl Settings {
    /// Prepares for changes: takes the lock, waiting up to `lock_timeout`, and starts the watchdog.
    /// Settings left by a killed command are restored first and returned. `command` describes
    /// this command to others that find the lock held.
    ///
    /// # Errors
    /// Another command is running, the journal's directory cannot be used, or the watchdog does
    /// not start; nothing was changed.
    pub fn begin(
        root: &SysRoot,
        watchdog: &WatchdogCommand,
        lock_timeout: Duration,
        command: &str,
    ) -> Result<(Self, Vec<Undone>), SettingsError> {
        let lock = lock::take(root, lock_timeout)?;
        let undone = match Journal::read(root)? {
            Some(left) => left.restore(root)?,
            None => Vec::new(),
        };
        let active = Active {
            journal: Journal::new(root, command),
            watchdog: Watchdog::start(watchdog, &lock).map_err(SettingsError::Watchdog)?,
            _lock: lock,
        };
        let settings = Self {
            root: root.clone(),
            active: Some(active),
        };
        Ok((settings, undone))
    }

    /// Sets a file to a value; returns true if this changed the value.
    ///
    /// # Errors
    /// The file cannot be read or written, or the journal cannot be written.
    pub fn set(&mut self, file: &Path, value: &str) -> Result<bool, SettingsError> {
        let before = read(file).map_err(SettingsError::file(file))?;
        if before == value {
            return Ok(false);
        }
        self.note(Undo::Value {
            file: file.to_owned(),
            before,
            during: value.to_owned(),
        })?;
        write(file, value).map_err(SettingsError::file(file))?;
        Ok(true)
    }

    /// Records a change that the caller is about to make.
    ///
    /// # Errors
    /// The journal cannot be written; the change must not be made then.
    pub fn note(&mut self, undo: Undo) -> Result<(), SettingsError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        active.journal.undo.push(undo);
        let written = active.journal.write(&self.root);
        if written.is_err() {
            active.journal.undo.pop();
        }
        written
    }

    /// Restores all settings.
    ///
    /// # Errors
    /// A setting cannot be restored; it stays in the journal.
    pub fn restore(mut self) -> Result<Vec<Undone>, SettingsError> {
        self.end()
    }

    fn end(&mut self) -> Result<Vec<Undone>, SettingsError> {
        let Some(active) = self.active.take() else {
            return Ok(Vec::new());
        };
        let undone = active.journal.restore(&self.root);
        active.watchdog.dismiss();
        undone
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // Settings that cannot be restored stay in the journal.
        let _ = self.end();
    }
}

/// Restores settings left by a killed command whose watchdog was killed as well. Waits up to
/// `lock_timeout` for a watchdog that is still restoring them.
///
/// # Errors
/// Another command is running, or a setting cannot be restored.
pub fn restore(root: &SysRoot, lock_timeout: Duration) -> Result<Vec<Undone>, SettingsError> {
    let _lock = lock::take(root, lock_timeout)?;
    match Journal::read(root)? {
        Some(journal) => journal.restore(root),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests;
