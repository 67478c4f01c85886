//! Lock that admits one command at a time.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Journal, SettingsError};
use crate::hotplug::SysRoot;

/// Interval between attempts.
const AGAIN: Duration = Duration::from_millis(20);

/// Takes the lock, waiting up to `lock_timeout`. The lock lasts until every process that has the
/// file open, this one and its watchdog, has closed it, so that no command mistakes a temporary
/// value for the old one.
pub(super) fn take(root: &SysRoot, lock_timeout: Duration) -> Result<fs::File, SettingsError> {
    let path = Journal::directory(root)?.join("cpu.lock");
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
            Err(Errno::WOULDBLOCK) if begin.elapsed() < lock_timeout => thread::sleep(AGAIN),
            Err(Errno::WOULDBLOCK) => {
                let holder = match Journal::read(root) {
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
