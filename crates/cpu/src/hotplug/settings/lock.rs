//! One at a time.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Journal, SettingsError};
use crate::hotplug::SysRoot;

/// Between two tries.
const AGAIN: Duration = Duration::from_millis(20);

/// A lock that lasts until the file is closed by everyone who has it: this process and its
/// watchdog. So nobody takes a temporary value for the old one.
pub(super) fn take(place: &SysRoot, patience: Duration) -> Result<fs::File, SettingsError> {
    let path = Journal::directory(place)?.join("cpu.lock");
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options
        .mode(0o600)
        .open(&path)
        .map_err(SettingsError::file(&path))?;
    let begin = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if begin.elapsed() < patience => thread::sleep(AGAIN),
            Err(Errno::WOULDBLOCK) => {
                let holder = match Journal::read(place) {
                    Ok(Some(journal)) if journal.is_alive() => {
                        format!("`{}`, process {},", journal.command, journal.process)
                    }
                    Ok(Some(journal)) => format!("the watchdog of `{}`", journal.command),
                    _ => "another command".into(),
                };
                return Err(SettingsError::Busy { path, holder });
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(SettingsError::file(path)(error.into())),
        }
    }
}
