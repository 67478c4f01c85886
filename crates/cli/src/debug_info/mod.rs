//! Debug information for a process that reads an untrusted dump and can open no file itself.
//!
//! What is wanted is known only when the dump is open. So a process that was started before, the
//! [`helper`], finds it by build id, and passes the open file.

pub mod helper;
mod message;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::Context;
use bigiron_debuginfo::Wanted;
use bigiron_helpers::Stop;
use bigiron_inspect::FindDebugFile;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

pub use message::HELPER;
use message::{ASK_SERVERS, Answer, MAX_MESSAGE};

use crate::passing::{receive, send};

/// Nanoseconds after which the process that waits looks whether it is to stop.
const PATIENCE: i64 = 100_000_000;

/// Options of commands that show source lines.
#[derive(Clone, Debug, Default, Args)]
pub struct DebugInfoArguments {
    /// A file with debug information, or a folder of such files, to look at before the usual ones
    #[arg(long, value_name = "PATH")]
    debug_info: Vec<PathBuf>,
    /// Ask the servers of `DEBUGINFOD_URLS` as well, and keep what they send in debuginfod's cache
    #[arg(long)]
    debuginfod: bool,
}

/// Finds debug information by the helper process.
pub struct DebugFiles {
    /// One question at a time.
    socket: Mutex<OwnedFd>,
    stop: Stop,
}

impl DebugInfoArguments {
    /// True if the user said where to look.
    pub fn is_given(&self) -> bool {
        self.debuginfod || !self.debug_info.is_empty()
    }

    /// True if servers may be asked, which takes time.
    pub fn asks_servers(&self) -> bool {
        self.debuginfod
    }

    /// Starts the helper, which ends with this process. Call this before the dump is read.
    ///
    /// # Errors
    ///
    /// A path of the user's is not there, or the program cannot be started.
    pub fn start(&self, stop: &Stop) -> anyhow::Result<DebugFiles> {
        for path in &self.debug_info {
            let is_there = std::fs::metadata(path);
            is_there.with_context(|| format!("--debug-info {}", path.display()))?;
        }
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
        let cannot_start = "cannot start the process that finds debug information";
        let pair = socketpair(AddressFamily::UNIX, kind, flags, None);
        let (ours, theirs) = pair.context(cannot_start)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(HELPER);
        if self.debuginfod {
            command.arg(ASK_SERVERS);
        }
        command
            .args(self.debug_info.iter().map(absolute))
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context(cannot_start)?;
        Ok(DebugFiles {
            socket: Mutex::new(ours),
            stop: stop.clone(),
        })
    }
}

/// A path that does not begin with a dash, as a flag of the helper does.
fn absolute(path: &PathBuf) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| Path::new(".").join(path))
}

impl FindDebugFile for DebugFiles {
    fn find(
        &self,
        build_id: &str,
        release: &str,
        module: Option<&str>,
    ) -> Result<(File, PathBuf), String> {
        let wanted = Wanted::new(build_id, release, module)?;
        let gone = |_| "the process that finds debug information has ended".to_owned();
        let question = serde_json::to_vec(&wanted).map_err(|error| error.to_string())?;
        let socket = self.socket.lock().map_err(|error| error.to_string())?;
        send(&*socket, &question, None).map_err(gone)?;
        self.wait(&socket)?;
        let mut bytes = vec![0; MAX_MESSAGE];
        let (len, file) = receive(&*socket, &mut bytes).map_err(gone)?;
        let answer = bytes.get(..len).unwrap_or_default();
        let answer = serde_json::from_slice(answer).map_err(|error| gone(error.into()))?;
        match (answer, file) {
            (Answer::Found(path), Some(file)) => Ok((file.into(), path)),
            (Answer::Missing(reason), _) => Err(reason),
            (Answer::Found(path), None) => Err(format!("{}: did not arrive", path.display())),
        }
    }
}

impl DebugFiles {
    /// Waits for the answer.
    fn wait(&self, socket: &OwnedFd) -> Result<(), String> {
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: PATIENCE,
        };
        while !self.stop.is_set() {
            let mut answer = [PollFd::new(socket, PollFlags::IN)];
            match poll(&mut answer, Some(&patience)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("the time ran out before debug information was found".into())
    }
}
