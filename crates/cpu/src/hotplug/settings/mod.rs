//! Settings of the kernel that are changed for a while, and put back whatever happens.
//!
//! Before anything is changed the old values are in a journal under `/run/bigiron`, and a watchdog
//! process waits for the end of this one. A normal end, an error and a signal put them back here;
//! after SIGKILL the watchdog does; if that was killed too, [`restore`] or the next
//! [`Settings::begin`]. A lock keeps two commands from taking each other's temporary values for
//! the old ones. After a power cut the kernel has its own defaults.

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

/// Changed settings. When it is dropped, they are put back; [`Settings::restore`] tells what
/// came of it.
#[derive(Debug)]
pub struct Settings {
    place: SysRoot,
    /// `None` when all is put back.
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
    /// Gets everything ready for changes: the lock, which may take `patience`, and the watchdog.
    /// What a killed command left is put back first, and told. `command` says what this one does,
    /// for whoever finds it at work.
    ///
    /// # Errors
    /// Another command is at work, the journal's directory cannot be used, or the watchdog does
    /// not start; then nothing was changed.
    pub fn begin(
        place: &SysRoot,
        watchdog: &WatchdogCommand,
        patience: Duration,
        command: &str,
    ) -> Result<(Self, Vec<Undone>), SettingsError> {
        let lock = lock::take(place, patience)?;
        let undone = match Journal::read(place)? {
            Some(left) => left.restore(place)?,
            None => Vec::new(),
        };
        let active = Active {
            journal: Journal::new(place, command),
            watchdog: Watchdog::start(watchdog, &lock).map_err(SettingsError::Watchdog)?,
            _lock: lock,
        };
        let settings = Self {
            place: place.clone(),
            active: Some(active),
        };
        Ok((settings, undone))
    }

    /// Sets a file to a value; whether that changed anything.
    ///
    /// # Errors
    /// The file cannot be read or written, or the journal cannot be.
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

    /// Notes a change that the caller is about to make.
    ///
    /// # Errors
    /// The journal cannot be written: then the change must not be made.
    pub fn note(&mut self, undo: Undo) -> Result<(), SettingsError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        active.journal.undo.push(undo);
        let written = active.journal.write(&self.place);
        if written.is_err() {
            active.journal.undo.pop();
        }
        written
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// Something is not as it was: it stays in the journal.
    pub fn restore(mut self) -> Result<Vec<Undone>, SettingsError> {
        self.end()
    }

    fn end(&mut self) -> Result<Vec<Undone>, SettingsError> {
        let Some(active) = self.active.take() else {
            return Ok(Vec::new());
        };
        let undone = active.journal.restore(&self.place);
        active.watchdog.dismiss();
        undone
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // What fails stays in the journal.
        let _ = self.end();
    }
}

/// Puts back what a killed command left, if its watchdog was killed as well. Waits up to `patience`
/// for a watchdog that is at it.
///
/// # Errors
/// A command is at work, or something cannot be put back.
pub fn restore(place: &SysRoot, patience: Duration) -> Result<Vec<Undone>, SettingsError> {
    let _lock = lock::take(place, patience)?;
    match Journal::read(place)? {
        Some(journal) => journal.restore(place),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests;
