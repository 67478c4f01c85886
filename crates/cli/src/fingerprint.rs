//! Names the crash of a saved dump, by a process of its own that reads it.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use bigiron_dump::DumpError;
use serde::Deserialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::{signals, timeout};

/// Time for a dump.
const LIMIT: Duration = Duration::from_secs(60);
/// Time that the process has beyond that to end by itself, and then to be gone when it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// Time between two looks at a process whose output has ended.
const LOOK: Duration = Duration::from_millis(1);
/// Maximum output of the process.
const MAX_OUTPUT: u64 = 4 << 20;

/// What `bigiron info --json` prints, as far as it matters here.
#[derive(Deserialize)]
struct Described {
    signature: Option<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    fingerprint: Option<String>,
}

/// The fingerprint of the crash of a dump; `None` if it has none, or cannot be read in time.
///
/// # Errors
///
/// This process, or that of the dump, was told to end.
pub fn fingerprint(dump: &Path) -> Result<Option<String>, DumpError> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["info", "--json"])
        .arg(format!("--timeout={}", LIMIT.as_secs()))
        .arg("--")
        .arg(dump);
    let (said, status) = outcome(command, LIMIT.saturating_add(GRACE)).unwrap_or_default();
    let signal = status.and_then(|status| status.signal());
    let is_told = signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGTERM].contains(&signal));
    if is_told || signals::received() || timeout::has_expired() {
        return Err(DumpError::Interrupted { kept: None });
    }
    let is_well = status.is_some_and(|status| status.success());
    let described = serde_json::from_slice(&said).ok().filter(|_| is_well);
    let signature = described.and_then(|described: Described| described.signature);
    Ok(signature.and_then(|signature| signature.fingerprint))
}

/// What a command prints within a time, and how it ended, if it did.
fn outcome(mut command: Command, limit: Duration) -> io::Result<(Vec<u8>, Option<ExitStatus>)> {
    let (reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::null());
    let mut process = command.spawn()?;
    // This process's end of the pipe closes with it, so that the end of the output is seen.
    drop(command);
    let said = output_of(reader).recv_timeout(limit);
    if said.is_err() {
        process.kill()?;
    }
    Ok((said.unwrap_or_default(), status_of(&mut process)))
}

/// Reads the output in a thread of its own, so that waiting for it has a limit.
fn output_of(reader: PipeReader) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut said = Vec::new();
        let _ = reader.take(MAX_OUTPUT).read_to_end(&mut said);
        let _ = send.send(said);
    });
    receive
}

/// How a process ended. A system call that does not return can hold it, whatever is done.
fn status_of(process: &mut Child) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < GRACE {
        match process.try_wait() {
            Ok(None) => thread::sleep(LOOK),
            ended => return ended.ok().flatten(),
        }
    }
    let _ = process.kill();
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    fn of_shell(script: &str, limit: Duration) -> (Vec<u8>, ExitStatus) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let (said, status) = outcome(command, limit).unwrap();
        (said, status.unwrap())
    }

    #[test]
    fn output_is_that_of_standard_output_alone() {
        let (said, status) = of_shell("echo bad >&2; echo good; cat; exit 3", LIMIT);
        assert_eq!((said.as_slice(), status.code()), (&b"good\n"[..], Some(3)));
    }

    #[test]
    fn process_that_hangs_is_killed() {
        let (said, status) = of_shell("exec sleep 1000", Duration::ZERO);
        assert_eq!((said.len(), status.signal()), (0, Some(9)));
    }

    #[test]
    fn process_that_was_told_to_end_is_known() {
        let (_, status) = of_shell("kill -TERM $$", LIMIT);
        assert_eq!(status.signal(), Some(SIGTERM));
    }
}
