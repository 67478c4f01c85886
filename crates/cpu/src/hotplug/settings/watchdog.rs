//! Process that restores settings when the process that changed them is killed.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use super::{Journal, SettingsError, Undone};
use crate::hotplug::SysRoot;

const READY: u8 = b'r';
const DONE: u8 = b'd';
/// Timeout for the start of the watchdog, which normally takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Command that starts the watchdog: a program, which must call [`serve`], and its arguments.
pub type WatchdogCommand = Vec<OsString>;

/// Watchdog, as seen by the process that it watches.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    channel: UnixStream,
}

impl Watchdog {
    /// Starts the watchdog and waits until it is ready. It holds `lock` for its whole life.
    pub(super) fn start(command: &[OsString], lock: &fs::File) -> io::Result<Self> {
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| io::Error::other("no watchdog program given"))?;
        let (channel, its) = UnixStream::pair()?;
        let process = Command::new(program)
            .args(arguments)
            .stdin(OwnedFd::from(its))
            .stdout(lock.try_clone()?)
            .current_dir("/")
            .spawn()?;
        let mut watchdog = Self { process, channel };
        watchdog.channel.set_read_timeout(Some(LOCK_TIMEOUT))?;
        let mut word = [0];
        let heard = watchdog.channel.read_exact(&mut word);
        if let Err(error) = heard {
            let _ = watchdog.process.kill();
            let _ = watchdog.process.wait();
            return Err(error);
        }
        Ok(watchdog)
    }

    /// Ends the watchdog without restoring anything.
    pub(super) fn dismiss(mut self) {
        // The watchdog may have been killed.
        let _ = self.channel.write_all(&[DONE]);
        let _ = self.channel.shutdown(Shutdown::Both);
        let _ = self.process.wait();
    }
}

/// Runs the watchdog. Standard input is its channel; standard output is the lock, and must not
/// be written to. If the channel closes without a message, the watchdog restores the settings.
///
/// The caller must ensure that no signal ends the process.
///
/// # Errors
/// The process was not started as a watchdog, or settings cannot be restored.
pub fn serve(root: &SysRoot) -> Result<Vec<Undone>, SettingsError> {
    let channel = || -> io::Result<UnixStream> {
        // A new session receives no signals of the terminal, and none for the process group.
        rustix::process::setsid()?;
        let mut channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        channel.write_all(&[READY])?;
        Ok(channel)
    };
    let mut channel = channel().map_err(SettingsError::Watchdog)?;
    let mut word = [0];
    let heard = loop {
        match channel.read(&mut word) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            heard => break heard,
        }
    };
    match heard {
        Ok(1) if word == [DONE] => Ok(Vec::new()),
        _ => match Journal::read(root)? {
            Some(journal) => journal.restore(root),
            None => Ok(Vec::new()),
        },
    }
}
