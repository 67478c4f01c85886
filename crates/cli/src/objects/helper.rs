//! The helper process that has the network.
//!
//! It is started before the process that parses confines itself. It confines itself as well: it
//! can connect to servers, and read the files by which names are resolved and those of the
//! credentials, and no others. It answers for those objects only that were opened before the
//! other process closed the list, and it ends when that process has ended.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use bigiron_objects::{Connect, Environment, Remote, Scheme, Service, Store};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::errors::FAILED;
use crate::passing::{receive, send};
use crate::resolver;
use crate::sandbox::{self, Needs};

/// Leading arguments of the helper process; the scheme of its objects follows.
pub const HELPER: [&str; 2] = ["object", "helper"];
/// The message that comes with a new connection.
const CONNECTION: u8 = b'c';
/// The socket over which the helper receives connections.
struct Control(OwnedFd);

impl Connect for Control {
    fn connect(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        send(&self.0, &[CONNECTION], Some(theirs.as_fd()))?;
        Ok(ours)
    }
}

/// Starts the helper, for objects of one scheme.
///
/// # Errors
///
/// The program cannot be started.
pub fn start(scheme: Scheme) -> anyhow::Result<Remote> {
    let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
    let pair = socketpair(AddressFamily::UNIX, kind, flags, None);
    let cannot_start = "cannot start the process that has the network";
    let (socket, theirs) = pair.context(cannot_start)?;
    Command::new("/proc/self/exe")
        .args(HELPER)
        .arg(scheme.name())
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Not the terminal's: Ctrl-C is for the process that reads, whose end ends this one.
        .process_group(0)
        .spawn()
        .context(cannot_start)?;
    Ok(Remote::new(Box::new(Control(socket))))
}

/// Runs the helper process; returns its exit code.
pub fn run(arguments: &[OsString]) -> u8 {
    let name = arguments.first().and_then(|name| name.to_str());
    let Some(scheme) = name.and_then(Scheme::named) else {
        return FAILED;
    };
    let store = Store::new(&Environment::of_process(), scheme);
    let mut files: Vec<PathBuf> = resolver::FILES.iter().map(PathBuf::from).collect();
    if let Ok(store) = &store {
        files.extend_from_slice(store.dialect().directories());
        resolver::load(&store.dialect().host());
    }
    sandbox::enter(&Needs::Network(&files));
    match answer(&Arc::new(Service::new(store))) {
        Ok(()) => 0,
        Err(_) => FAILED,
    }
}

/// Answers on all connections until the other process has ended.
fn answer(service: &Arc<Service>) -> io::Result<()> {
    let socket = io::stdin();
    let mut message = [0];
    loop {
        let (len, file) = receive(&socket, &mut message)?;
        if len == 0 {
            // What a process that was killed has sent is uploaded.
            service.wait_for_uploads();
            return Ok(());
        }
        let Some(file) = file.filter(|_| message[0] == CONNECTION) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let service = Arc::clone(service);
        let mut connection = UnixStream::from(file);
        thread::Builder::new().spawn(move || service.serve(&mut connection))?;
    }
}
