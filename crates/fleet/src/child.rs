//! A process for each dump.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::row::Row;

/// Maximum output of a process: a row, and messages.
const MAX_OUTPUT: u64 = 4 << 20;
/// Maximum length of a message that is kept.
const MAX_MESSAGE: usize = 1000;
/// Time between two looks at a process that was killed.
const LOOK: Duration = Duration::from_millis(1);

/// Limits of a process. The program enforces both itself; the time also its parent.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for a dump.
    pub time: Duration,
    /// Time that a process has beyond that to end by itself, and then to be gone after it was
    /// killed.
    pub grace: Duration,
}

/// The program that describes a dump: it is started with the path of the dump as its last
/// argument, and prints a row as one line of JSON.
#[derive(Clone, Debug)]
pub struct Child {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
    /// Its limits.
    pub limits: Limits,
}

impl Child {
    /// Describes the dump at `path`; an error is the reason why it cannot be described.
    pub fn describe(&self, path: &str) -> Result<Row, String> {
        let cannot_start = |error: io::Error| format!("cannot start a process for it: {error}");
        let (reader, writer) = io::pipe().map_err(cannot_start)?;
        let errors = writer.try_clone().map_err(cannot_start)?;
        // The parent's ends of the pipe close with the command, so that its end is seen.
        let mut process = Command::new(&self.program)
            .args(&self.arguments)
            .arg("--")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(errors)
            .spawn()
            .map_err(cannot_start)?;
        let output = output_of(reader);
        let Limits { time, grace } = self.limits;
        let limit = time.saturating_add(grace);
        let said = output.recv_timeout(limit);
        if said.is_err() {
            let _ = process.kill();
        }
        let begin = Instant::now();
        let status = loop {
            match process.try_wait() {
                Ok(Some(status)) => break Some(status),
                Err(_) => break None,
                // A system call that does not return holds the process; nothing can end it.
                Ok(None) if begin.elapsed() > grace => {
                    let _ = process.kill();
                    break None;
                }
                Ok(None) => thread::sleep(LOOK),
            }
        };
        match said {
            Ok(said) => row_in(&said, status),
            Err(_) => Err(format!(
                "did not end within {} s and was killed",
                limit.as_secs()
            )),
        }
    }
}

/// Reads the output of a process in a thread of its own, so that waiting for it has a limit.
fn output_of(mut reader: PipeReader) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut said = Vec::new();
        let _ = reader.by_ref().take(MAX_OUTPUT).read_to_end(&mut said);
        let _ = send.send(said);
    });
    receive
}

/// The row in the output of a process, or the reason why there is none.
fn row_in(said: &[u8], status: Option<ExitStatus>) -> Result<Row, String> {
    let said = String::from_utf8_lossy(said);
    let is_well = status.is_some_and(|status| status.success());
    let row = said.lines().rev().find(|line| line.starts_with('{'));
    if let Some(row) = row.and_then(|line| serde_json::from_str(line).ok())
        && is_well
    {
        return Ok(row);
    }
    let message = said
        .lines()
        .rev()
        .find(|line| !line.starts_with('{') && !line.trim().is_empty());
    let ended = match status {
        Some(status) if status.signal().is_some() => {
            format!(
                "its process was ended by signal {}",
                status.signal().unwrap_or(0)
            )
        }
        Some(status) => format!(
            "its process ended with status {}",
            status.code().unwrap_or(0)
        ),
        None => "its process did not end".to_owned(),
    };
    Err(match message {
        Some(message) => {
            let message = message.strip_prefix("bigiron: ").unwrap_or(message);
            message.chars().take(MAX_MESSAGE).collect()
        }
        None => ended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in the place of the program; the path is `$1`.
    fn describe(script: &str, seconds: u64) -> Result<Row, String> {
        let arguments = ["-c", script, "sh"];
        Child {
            program: "/bin/sh".into(),
            arguments: arguments.map(OsString::from).to_vec(),
            limits: Limits {
                time: Duration::from_secs(seconds),
                grace: Duration::from_secs(1),
            },
        }
        .describe("a/path")
    }

    #[test]
    fn row_is_the_line_of_json_among_messages() {
        let row = describe(r#"echo hello >&2; echo "{\"path\":\"$2\"}""#, 600);
        assert_eq!(row.map(|row| row.path), Ok("a/path".to_owned()));
    }

    #[test]
    fn last_message_is_the_reason_of_a_failure() {
        let failed = describe("echo first >&2; echo 'bigiron: it is bad' >&2; exit 1", 600);
        assert_eq!(failed, Err("it is bad".to_owned()));
        let failed = describe("exit 3", 600);
        assert_eq!(failed, Err("its process ended with status 3".to_owned()));
        let failed = describe("kill -9 $$", 600);
        assert_eq!(failed, Err("its process was ended by signal 9".to_owned()));
        // A row by a process that failed behind it may lack something.
        assert!(describe("echo '{}'; exit 1", 600).is_err());
    }

    #[test]
    fn process_that_hangs_is_killed() {
        let failed = describe("exec sleep 1000", 0);
        assert_eq!(
            failed,
            Err("did not end within 1 s and was killed".to_owned())
        );
    }
}
