//! A process that puts settings back when the one that changed them is killed.

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
/// It is there in some milliseconds; a machine that needs longer than this is in trouble.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the watchdog is started: a program and its arguments, which must call [`serve`].
pub type WatchdogCommand = Vec<OsString>;

/// The watchdog, seen from the process that it watches.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    channel: UnixStream,
}

impl Watchdog {
    /// Starts it and waits until it is ready. It holds `lock` as long as it lives.
    pub(super) fn start(command: &[OsString], lock: &fs::File) -> io::Result<Self> {
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| io::Error::other("no program is named"))?;
        let (channel, its) = UnixStream::pair()?;
        let process = Command::new(program)
            .args(arguments)
            .stdin(OwnedFd::from(its))
            .stdout(lock.try_clone()?)
            .current_dir("/")
            .spawn()?;
        let mut watchdog = Self { process, channel };
        watchdog.channel.set_read_timeout(Some(PATIENCE))?;
        let mut word = [0];
        let heard = watchdog.channel.read_exact(&mut word);
        if let Err(error) = heard {
            let _ = watchdog.process.kill();
            let _ = watchdog.process.wait();
            return Err(error);
        }
        Ok(watchdog)
    }

    /// Lets it end without doing anything.
    pub(super) fn dismiss(mut self) {
        // It may have been killed.
        let _ = self.channel.write_all(&[DONE]);
        let _ = self.channel.shutdown(Shutdown::Both);
        let _ = self.process.wait();
    }
}

/// The watchdog's whole life: standard input is its channel, and standard output the lock, to
/// which it must not write. It puts settings back if the channel ends without a word.
///
/// The caller sees to it that no signal ends it.
///
/// # Errors
/// It is started by hand, or settings cannot be put back.
pub fn serve(place: &SysRoot) -> Result<Vec<Undone>, SettingsError> {
    let channel = || -> io::Result<UnixStream> {
        // A session of its own: no signal of the terminal, and none for the process group.
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
        _ => match Journal::read(place)? {
            Some(journal) => journal.restore(place),
            None => Ok(Vec::new()),
        },
    }
}
