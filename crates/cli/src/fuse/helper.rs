//! A helper process that mounts and unmounts for a process that has confined itself.
//!
//! Landlock denies mount(2) and umount(2), and without new privileges the setuid program
//! fusermount3 has none. The helper is started before the process confines itself, with the
//! directory as its argument: later it can only be asked to mount that directory once, and to
//! unmount it. It reads nothing of the dump. When the process that started it has ended, it
//! unmounts, so that no directory stays behind that nobody serves.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::errors::FAILED;
use crate::fuse::error::MountError;
use crate::fuse::mountpoint::{Access, Mountpoint, Unmounted};
use crate::passing::{receive, send};

/// Leading arguments of the helper process.
pub const HELPER: [&str; 2] = ["fuse", "helper"];
/// Exit code for an invalid command line.
const USAGE: u8 = 2;
/// Maximum length of a message: a path or an error with a path.
const MAX_MESSAGE: usize = 16 << 10;
/// Read-ahead for a dump in chunks: several of them, so that threads unpack different ones. For
/// one in pages, the kernel's default of 128 KiB is twice as fast where single pages are mapped,
/// and no slower for sequential readers.
pub(crate) const CHUNKED_READ_AHEAD_KIB: u32 = 1024;
/// The helper mounts dumps: read-only, and for the user alone.
const ACCESS: Access = Access {
    writable: false,
    everyone: false,
};

/// Requests, and the answer to one that succeeded. An error is answered with [`ERROR`] and its
/// text.
const MOUNT: u8 = b'm';
const SERVED: u8 = b's';
const SERVED_IN_CHUNKS: u8 = b'c';
const UNMOUNT: u8 = b'u';
const DONE: u8 = b'd';
const LAZY: u8 = b'l';
const ALREADY: u8 = b'a';
const ERROR: u8 = b'e';

/// The helper process, seen from the process that started it.
#[derive(Debug)]
pub struct Helper {
    socket: OwnedFd,
    directory: PathBuf,
}

impl Helper {
    /// Starts a helper that can mount `directory`; lists of mounts will show it as `name`.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn start(directory: &Path, name: &str) -> Result<Self, MountError> {
        let failed = |cause: io::Error| MountError::Refused {
            path: directory.to_owned(),
            reason: format!("cannot start a helper process: {cause}"),
        };
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
        let pair = socketpair(AddressFamily::UNIX, kind, flags, None);
        let (socket, theirs) = pair.map_err(|error| failed(error.into()))?;
        Command::new("/proc/self/exe")
            .args(HELPER)
            .args([directory.as_os_str(), OsStr::new(name)])
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Not the terminal's: Ctrl-C ends the process that serves, which then unmounts.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Self {
            socket,
            directory: directory.to_owned(),
        })
    }

    /// Mounts the directory and returns the FUSE device file.
    pub(crate) fn mount(&mut self) -> Result<OwnedFd, MountError> {
        let (kind, text, file) = self.ask(MOUNT).map_err(|error| self.lost(&error))?;
        match (kind, file) {
            (DONE, Some(file)) => {
                self.directory = OsString::from_vec(text).into();
                Ok(file)
            }
            _ => Err(MountError::Helper {
                text: String::from_utf8_lossy(&text).into_owned(),
            }),
        }
    }

    /// Lets the helper look at the mount, which is served by now.
    pub(crate) fn look(&self, is_chunked: bool) -> io::Result<()> {
        let request = if is_chunked { SERVED_IN_CHUNKS } else { SERVED };
        match self.ask(request)? {
            (DONE, ..) => Ok(()),
            (_, text, _) => Err(io::Error::other(String::from_utf8_lossy(&text))),
        }
    }

    /// Unmounts, as [`Mountpoint::unmount`] does.
    pub(crate) fn unmount(&self) -> Result<Unmounted, MountError> {
        let (kind, text, _) = self.ask(UNMOUNT).map_err(|error| self.lost(&error))?;
        match kind {
            DONE => Ok(Unmounted::Clean),
            LAZY => Ok(Unmounted::Lazy),
            ALREADY => Ok(Unmounted::Already),
            _ => Err(MountError::Helper {
                text: String::from_utf8_lossy(&text).into_owned(),
            }),
        }
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn ask(&self, request: u8) -> io::Result<(u8, Vec<u8>, Option<OwnedFd>)> {
        send(&self.socket, &[request], None)?;
        let mut bytes = vec![0; MAX_MESSAGE];
        let (len, file) = receive(&self.socket, &mut bytes)?;
        bytes.truncate(len);
        match bytes.split_first() {
            Some((kind, text)) => Ok((*kind, text.to_vec(), file)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn lost(&self, error: &io::Error) -> MountError {
        MountError::Refused {
            path: self.directory.clone(),
            reason: format!("the helper process does not answer: {error}"),
        }
    }
}

/// Runs the helper process with the arguments after its name; returns the exit code.
pub fn run(arguments: &[OsString]) -> u8 {
    let [directory, name] = arguments else {
        return USAGE;
    };
    match answer(Path::new(directory), &name.to_string_lossy()) {
        Ok(()) => 0,
        Err(_) => FAILED,
    }
}

/// Answers requests until the other process has ended.
fn answer(directory: &Path, name: &str) -> io::Result<()> {
    // A service manager sends its signals to this process, too.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::default())?;
    }
    let socket = io::stdin();
    let reply = |result: Result<u8, String>, text: &[u8], file: Option<OwnedFd>| {
        let message = match result {
            Ok(kind) => [&[kind], text].concat(),
            Err(error) => [&[ERROR], error.as_bytes()].concat(),
        };
        let len = message.len().min(MAX_MESSAGE);
        send(&socket, &message[..len], file.as_ref().map(AsFd::as_fd))
    };
    let mut mounted: Option<Mountpoint> = None;
    let mut request = [0];
    while receive(&socket, &mut request)?.0 > 0 {
        match (request[0], &mut mounted) {
            (MOUNT, None) => match Mountpoint::new(directory, name, ACCESS) {
                Ok((mountpoint, file)) => {
                    let path = mountpoint.directory().as_os_str().as_bytes().to_vec();
                    mounted = Some(mountpoint);
                    reply(Ok(DONE), &path, Some(file))?;
                }
                Err(error) => reply(Err(error.to_string()), b"", None)?,
            },
            (kind @ (SERVED | SERVED_IN_CHUNKS), Some(mountpoint)) => {
                let looked = mountpoint.look().map_err(|error| error.to_string());
                if kind == SERVED_IN_CHUNKS {
                    mountpoint.set_read_ahead(CHUNKED_READ_AHEAD_KIB);
                }
                reply(looked.map(|()| DONE), b"", None)?;
            }
            (UNMOUNT, Some(mountpoint)) => {
                let unmounted = mountpoint.unmount().map(|how| match how {
                    Unmounted::Clean => DONE,
                    Unmounted::Lazy => LAZY,
                    Unmounted::Already => ALREADY,
                });
                let is_gone = unmounted.is_ok();
                reply(unmounted.map_err(|error| error.to_string()), b"", None)?;
                if is_gone {
                    mounted = None;
                }
            }
            (UNMOUNT, None) => reply(Ok(ALREADY), b"", None)?,
            _ => reply(Err("unknown request".into()), b"", None)?,
        }
    }
    if let Some(mountpoint) = mounted {
        let _ = mountpoint.unmount();
    }
    Ok(())
}
