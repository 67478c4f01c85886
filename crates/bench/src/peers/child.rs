//! Runs a program to its end and measures it.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use bigiron_dump::{DumpError, peak_memory_in};
use bigiron_helpers::Stop;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;
use wait4::Wait4;

/// Number of bytes of a program's messages that are read, from the end.
const TAIL_BYTES: u64 = 16 << 10;
/// The last message of makedumpfile, which does not describe the error.
const EMPTY_WORDS: &str = "makedumpfile Failed.";

/// The resources used by one run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Run {
    /// Wall time in seconds, by a monotonic clock.
    pub seconds: f64,
    /// CPU time of all threads in seconds, user and system.
    pub cpu_seconds: f64,
    /// Peak resident memory in bytes.
    pub peak_bytes: u64,
    /// Size of the output on the file system in bytes.
    pub output_bytes: u64,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// With exit status 0.
    Done(Run),
    /// By a signal: its number and the program's last line.
    Signal(i32, String),
    /// With another exit status: the status and the program's last line.
    Failed(i32, String),
    /// Killed, because it exceeded its time limit.
    TooSlow,
}

/// A program to run.
pub struct Job<'a> {
    /// The command line.
    pub command: Command,
    /// The output file.
    pub output: &'a Path,
    /// File for the program's messages.
    pub log: &'a Path,
    /// True if the program writes the output to its standard output.
    pub to_stdout: bool,
    /// Time limit of the run.
    pub time_limit: Option<Duration>,
}

/// Runs a program to its end.
pub fn run(job: Job, stop: &Stop) -> anyhow::Result<Ending> {
    let Job {
        mut command,
        output,
        log,
        to_stdout,
        time_limit,
    } = job;
    for old in [output, log] {
        if old.exists() {
            fs::remove_file(old).with_context(|| format!("{}: cannot remove", old.display()))?;
        }
    }
    let create = |path: &Path| {
        let mut options = File::options();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.read(true).write(true).create_new(true).open(path);
        file.with_context(|| format!("{}: cannot create the file", path.display()))
    };
    let mut said = create(log)?;
    let stdout = if to_stdout {
        create(output)?
    } else {
        said.try_clone()?
    };
    command.stdin(Stdio::null()).stdout(stdout);
    command.stderr(said.try_clone()?);
    let name = command.get_program().to_string_lossy().into_owned();

    let begin = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("{name}: cannot start the program"))?;
    let pid = Pid::from_child(&child);
    let watch = Watch {
        pid,
        begin,
        time_limit,
        ended: AtomicBool::new(false),
        killed: AtomicBool::new(false),
        peak: AtomicU64::new(0),
    };
    let seconds = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch.run(stop));
        // The process stays a zombie until its watcher has ended, so its PID cannot be reused
        // by a process that would then be killed by mistake.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
        let seconds = begin.elapsed().as_secs_f64();
        watch.ended.store(true, Ordering::Release);
        watcher.thread().unpark();
        seconds
    });
    let used = child
        .wait4()
        .with_context(|| format!("{name}: cannot wait for the program"))?;
    if stop.is_set() {
        return Err(DumpError::Interrupted { kept: None }.into());
    }
    match (used.status.code(), used.status.signal()) {
        (Some(0), _) => Ok(Ending::Done(Run {
            seconds,
            cpu_seconds: (used.rusage.utime + used.rusage.stime).as_secs_f64(),
            peak_bytes: watch.peak.into_inner(),
            output_bytes: fs::metadata(output)
                .with_context(|| format!("{name} did not create {}", output.display()))?
                .blocks()
                * 512,
        })),
        (Some(code), _) => Ok(Ending::Failed(code, last_line(&mut said))),
        (None, _) if watch.killed.into_inner() => Ok(Ending::TooSlow),
        (None, signal) => Ok(Ending::Signal(
            signal.unwrap_or_default(),
            last_line(&mut said),
        )),
    }
}

/// Samples the peak memory of a process, and kills the process on a stop request or after its
/// time limit.
///
/// wait4's ru_maxrss is not usable: execve() inherits the peak of the forking process
/// (setmax_mm_hiwater_rss() in fs/exec.c), so a small program would appear as large as this
/// one.
struct Watch {
    pid: Pid,
    begin: Instant,
    time_limit: Option<Duration>,
    ended: AtomicBool,
    killed: AtomicBool,
    peak: AtomicU64,
}

impl Watch {
    fn run(&self, stop: &Stop) {
        let status = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        while !self.ended.load(Ordering::Acquire) {
            let taken = self.begin.elapsed();
            let too_slow = self.time_limit.is_some_and(|limit| taken > limit);
            if too_slow || stop.is_set() {
                self.killed.store(true, Ordering::Relaxed);
                // A process that has ended needs no kill.
                let _ = kill_process(self.pid, Signal::KILL);
            }
            if let Some(bytes) = peak_memory(&status) {
                self.peak.store(bytes, Ordering::Relaxed);
            }
            // Samples short runs often, and disturbs long runs rarely.
            let pause = taken / 50;
            thread::park_timeout(pause.clamp(Duration::from_millis(2), Duration::from_millis(50)));
        }
    }
}

/// Parses VmHWM, the peak resident memory of a process, in bytes.
fn peak_memory(status: &str) -> Option<u64> {
    peak_memory_in(&fs::read_to_string(status).ok()?)
}

/// Returns the last line that contains a message.
fn last_line(log: &mut File) -> String {
    let mut bytes = Vec::new();
    let size = log.metadata().map_or(0, |metadata| metadata.len());
    let tail = log
        .seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))
        .and_then(|_| log.read_to_end(&mut bytes));
    match tail {
        Ok(_) => last_line_of(&String::from_utf8_lossy(&bytes)),
        Err(error) => format!("(cannot read its messages: {error})"),
    }
}

/// Progress lines are overwritten by carriage returns.
fn last_line_of(text: &str) -> String {
    let mut lines = text.rsplit(['\n', '\r']).map(str::trim);
    lines
        .find(|line| !line.is_empty() && *line != EMPTY_WORDS)
        .unwrap_or("(no message)")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, stop: &Stop) -> (Ending, Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        let (output, log) = (directory.path().join("out"), directory.path().join("log"));
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&output);
        let ending = run(job(command, &output, &log), stop).unwrap();
        (ending, fs::read(&output).unwrap_or_default())
    }

    fn job<'a>(command: Command, output: &'a Path, log: &'a Path) -> Job<'a> {
        Job {
            command,
            output,
            log,
            to_stdout: false,
            time_limit: None,
        }
    }

    #[test]
    fn measurement_covers_only_the_time_and_memory_of_the_run() {
        // This memory of the test process must not count as the program's.
        let ours = vec![1_u8; 64 << 20];
        let (ending, made) = shell("echo made >\"$1\"; sleep 0.2", &Stop::new());
        let Ending::Done(run) = ending else {
            panic!("{ending:?}")
        };
        assert_eq!(made, b"made\n");
        assert!((0.2..5.0).contains(&run.seconds), "{run:?}");
        assert!(run.cpu_seconds < 0.2, "{run:?}");
        assert!((1 << 16..32 << 20).contains(&run.peak_bytes), "{run:?}");
        assert_eq!(
            ours.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
            64 << 20
        );
    }

    #[test]
    fn failed_run_returns_last_line_and_killed_run_its_signal() {
        let script = "echo why >&2; printf 'part 1\\rpart 2\\r\\n'; echo 'makedumpfile Failed.'; ";
        let (failed, _) = shell(&format!("{script} exit 3"), &Stop::new());
        assert!(
            matches!(&failed, Ending::Failed(3, line) if line == "part 2"),
            "{failed:?}"
        );
        let (killed, _) = shell(&format!("{script} kill -ABRT $$"), &Stop::new());
        assert!(
            matches!(&killed, Ending::Signal(6, line) if line == "part 2"),
            "{killed:?}"
        );
        assert_eq!(last_line_of("\r\n"), "(no message)");
    }

    #[test]
    fn stop_request_ends_the_program_immediately() {
        let (stop, begin) = (Stop::new(), Instant::now());
        let stopper = stop.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            stopper.set();
        });
        let directory = tempfile::tempdir().unwrap();
        let (output, log) = (directory.path().join("out"), directory.path().join("log"));
        let mut command = Command::new("sleep");
        command.arg("60");
        let error = run(job(command, &output, &log), &stop).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn program_beyond_its_time_limit_is_killed() {
        let (directory, begin) = (tempfile::tempdir().unwrap(), Instant::now());
        let (output, log) = (directory.path().join("out"), directory.path().join("log"));
        let mut command = Command::new("sleep");
        command.arg("60");
        let job = Job {
            time_limit: Some(Duration::from_millis(50)),
            ..job(command, &output, &log)
        };
        let ending = run(job, &Stop::new()).unwrap();
        assert!(matches!(ending, Ending::TooSlow), "{ending:?}");
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}
