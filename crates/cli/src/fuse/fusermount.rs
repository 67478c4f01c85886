//! fusermount3, which mounts for unprivileged users.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fuse::error::MountError;
use crate::passing::receive;

const PROGRAM: &str = "fusermount3";

/// Mounts `directory` and returns the FUSE device file.
pub(crate) fn mount(directory: &Path, options: &str) -> Result<OwnedFd, MountError> {
    let refused = |reason: String| MountError::Refused {
        path: directory.to_owned(),
        reason,
    };
    let (ours, theirs) = UnixStream::pair().map_err(|error| refused(error.to_string()))?;
    let mut command = Command::new(PROGRAM);
    command.args(["-o", options, "--"]).arg(directory);
    // fusermount3 sends the file through this socket: its standard input.
    command.env("_FUSE_COMMFD", "0");
    command
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refused(format!(
            "only root may mount without {PROGRAM}, which is not installed (package fuse3)"
        )),
        _ => refused(format!("{PROGRAM}: {error}")),
    })?;
    // Otherwise this process's copy of that end would keep the socket open after fusermount3 exits.
    drop(command);
    // The message itself, one byte, means nothing.
    let received = receive(&ours, &mut [0]).map(|(_, file)| file);
    let output = child
        .wait_with_output()
        .map_err(|error| refused(format!("{PROGRAM}: {error}")))?;
    match received {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(refused(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
        Err(error) => Err(refused(format!("{PROGRAM}: {error}"))),
    }
}

/// Unmounts; with `lazy`, even while it is in use.
pub(crate) fn unmount(directory: &Path, lazy: bool) -> Result<(), String> {
    let mut command = Command::new(PROGRAM);
    command.args(["-u", "-q"]);
    if lazy {
        command.arg("-z");
    }
    let output = command.arg("--").arg(directory).stdin(Stdio::null());
    let output = output
        .output()
        .map_err(|error| format!("{PROGRAM}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(match text.is_empty() {
        true => format!("{PROGRAM} ended with {}", output.status),
        false => text,
    })
}
